"""The client for scripts and notebooks: the same methods, without `await`.

An event loop in a thread of its own runs the asynchronous client, so it also works
where a loop runs already, as in a notebook.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Container, Coroutine, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from pydantic import BaseModel

from piecework.client.job import Deadline, Done, Failed, JobHandle, JobView
from piecework.client.progress import OnProgress
from piecework.declared import PipelineFunction, as_pipeline
from piecework.pipelines import Pipeline

if TYPE_CHECKING:
    from piecework.client.client import Client, Rows  # it imports this module

P = TypeVar("P", bound=BaseModel)
R = TypeVar("R")
T = TypeVar("T")

#: Runs a coroutine on the client's loop, and returns its value.
Run = Callable[[Coroutine[Any, Any, Any]], Any]


class SyncClient:
    """A client for scripts and notebooks; `Client.sync` makes it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        """Connect."""
        self._thread.start()
        self._run(self._client.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection; jobs continue."""
        try:
            self._run(self._client.__aexit__(kind, error, trace))
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    @overload
    def submit(
        self,
        pipeline: PipelineFunction[P, R],
        rows: Rows[P],
        *,
        id: str = "",
        deadline: Deadline | None = None,
        source: str = "",
    ) -> SyncJob[R]: ...
    @overload
    def submit(
        self,
        pipeline: Pipeline[P],
        rows: Rows[P],
        *,
        id: str = "",
        deadline: Deadline | None = None,
        source: str = "",
    ) -> SyncJob[Any]: ...
    def submit(
        self,
        pipeline: Pipeline[Any] | PipelineFunction[Any, Any],
        rows: Rows[Any],
        *,
        id: str = "",  # noqa: A002 -- the word of the command line
        deadline: Deadline | None = None,
        source: str = "",
    ) -> SyncJob[Any]:
        """Submit rows as a job; see `Client.submit`."""
        submitting = self._client.submit(
            as_pipeline(pipeline), rows, id=id, deadline=deadline, source=source
        )
        return SyncJob(self._run(submitting), self._run)

    @overload
    def job(self, id: str, pipeline: PipelineFunction[P, R]) -> SyncJob[R]: ...
    @overload
    def job(self, id: str, pipeline: Pipeline[Any] | None = None) -> SyncJob[Any]: ...
    def job(
        self,
        id: str,  # noqa: A002 -- the word of the command line
        pipeline: Pipeline[Any] | PipelineFunction[Any, Any] | None = None,
    ) -> SyncJob[Any]:
        """Return a handle of a job; `pipeline` types its results."""
        known = None if pipeline is None else as_pipeline(pipeline)
        return SyncJob(self._client.job(id, known), self._run)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise


class SyncJob(Generic[R]):
    """A job of a `SyncClient`; see `JobHandle` for arguments and errors."""

    def __init__(self, job: JobHandle[R], run: Run) -> None:
        self._job = job
        self._run = run

    @property
    def id(self) -> str:
        """The job id."""
        return self._job.id

    @property
    def created(self) -> bool:
        """Whether this submit created the job."""
        return self._job.created

    def view(self) -> JobView:
        """Return the state of the job now."""
        return self._call(self._job.view())

    def wait(
        self,
        timeout: float | None = None,
        on_progress: OnProgress = lambda _: None,
        *,
        progress: bool = False,
    ) -> JobView:
        """Return the state of the job when it has ended."""
        return self._call(self._job.wait(timeout, on_progress, progress=progress))

    def results(self, *, skip: Container[int] = ()) -> Iterator[Done[R] | Failed]:
        """Yield every chunk when it ends, until the job has ended."""
        items = self._job.results(skip=skip)
        while (item := self._call(next_item(items))) is not None:
            yield item

    def cancel(self, reason: str = "", *, compensate: bool = False) -> JobView:
        """Cancel the job; chunks that have a result keep it."""
        return self._call(self._job.cancel(reason, compensate=compensate))

    def retry(self, reason: str = "", deadline: Deadline | None = None) -> int:
        """Reopen the chunks without a result of a job that ended PARTIAL or FAILED."""
        return self._call(self._job.retry(reason, deadline))

    def resume(self, reason: str = "", deadline: Deadline | None = None) -> int:
        """Reopen the chunks without a result of a cancelled job; return how many."""
        return self._call(self._job.resume(reason, deadline))

    def redrive(self, reason: str, **filters: Any) -> int:
        """Redrive the open dead letters that match; return how many."""
        return self._call(self._job.redrive(reason, **filters))

    def export(self, path: str | Path) -> int:
        """Write the results of all ended chunks to a file; return how many."""
        return self._call(self._job.export(path))

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        result: T = self._run(work)
        return result


async def next_item(items: AsyncIterator[T]) -> T | None:
    """Return the next item; None: there is no further one."""
    return await anext(items, None)
