"""The connection of a program to one deployment, and the submit of a job."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from pydantic import BaseModel

from piecework.client.job import Deadline, JobHandle, epoch_of
from piecework.client.sync import SyncClient
from piecework.declared import PipelineFunction, as_pipeline
from piecework.domain.keys import is_name
from piecework.domain.model import JobRef
from piecework.errors import UsageError
from piecework.pipelines import Pipeline
from piecework.runtime import Runtime, connect
from piecework.settings import load_settings
from piecework_orchestrator.identity import new_job_id, whoami
from piecework_orchestrator.intake.chunk import ChunkInput
from piecework_orchestrator.intake.limits import printable_name
from piecework_orchestrator.intake.rows import row_chunks
from piecework_orchestrator.intake.source import chunk_inputs
from piecework_orchestrator.submit import Submission, submit

P = TypeVar("P", bound=BaseModel)
R = TypeVar("R")

#: Payloads, or mappings of their fields; or a path or an address as `piecework submit`
#: reads it.
Rows = (
    Iterable[P | Mapping[str, Any]] | AsyncIterable[P | Mapping[str, Any]] | str | Path
)


class Client:
    """Submits jobs to one deployment, and opens handles of them.

    Use it as an asynchronous context manager.

    Args:
        env, tenant, app: As the settings `PIECEWORK_ENV`, `PIECEWORK_TENANT` and
            `PIECEWORK_APP`, which apply by default.
        actor: The name of the operator in the record; default: user and host.
        runtime: A runtime that is open already; default: the client connects.

    Raises:
        UnreachableError: On entry: `aws.endpoint.unreachable`.
        UsageError: On entry: `aws.resource.not_found`, `config.setting.invalid`.
    """

    def __init__(
        self,
        *,
        env: str | None = None,
        tenant: str | None = None,
        app: str | None = None,
        actor: str = "",
        runtime: Runtime | None = None,
    ) -> None:
        names = {"env": env, "tenant": tenant, "app": app}
        self._overrides = {name: value for name, value in names.items() if value}
        self._actor = actor or whoami()
        self._runtime = runtime
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Connect."""
        if self._runtime is None:
            settings = load_settings(**self._overrides)
            connection = connect(settings)
            self._runtime = await self._stack.enter_async_context(connection)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection; jobs continue."""
        self._runtime = None
        await self._stack.aclose()

    @property
    def runtime(self) -> Runtime:
        """The open runtime.

        Raises:
            UsageError: The client is not entered.
        """
        if self._runtime is None:
            message = "The client is not connected."
            raise UsageError(message, next_step="Use `async with Client() as client:`.")
        return self._runtime

    @overload
    async def submit(
        self,
        pipeline: PipelineFunction[P, R],
        rows: Rows[P],
        *,
        id: str = "",
        deadline: Deadline | None = None,
        source: str = "",
    ) -> JobHandle[R]: ...
    @overload
    async def submit(
        self,
        pipeline: Pipeline[P],
        rows: Rows[P],
        *,
        id: str = "",
        deadline: Deadline | None = None,
        source: str = "",
    ) -> JobHandle[Any]: ...
    async def submit(
        self,
        pipeline: Pipeline[Any] | PipelineFunction[Any, Any],
        rows: Rows[Any],
        *,
        id: str = "",  # noqa: A002 -- the word of the command line
        deadline: Deadline | None = None,
        source: str = "",
    ) -> JobHandle[Any]:
        """Submit rows as a job; a repeated submit of one id creates one job.

        Args:
            pipeline: Its workers must know it by the same name.
            rows: Read to the end before the job is created; memory holds one pack.
            id: The job id; empty: a new one.
            deadline: When the job is cancelled unless it has ended.
            source: What the record says about the origin of the rows.

        Raises:
            UsageError: `input.…`: a row is invalid, and no job was created;
                `submit.token.conflict`: a job with this id has other content.
        """
        rt, pipeline = self.runtime, as_pipeline(pipeline)
        if id and not is_name(id):
            message = f"{id!r} is not a valid job id."
            step = "Use up to 64 letters, digits, `-` and `_`."
            raise UsageError(message, next_step=step)
        until = epoch_of(deadline, rt.clock())
        ref = JobRef(rt.settings.tenant, id or new_job_id(rt.clock()))
        chunks, origin = read_rows(rt, pipeline, rows)
        submission = Submission(ref, pipeline, source or origin, self._actor, until)
        _, created = await submit(rt, submission, chunks)
        return JobHandle(ref.job, rt, self._actor, pipeline, created)

    @overload
    def job(self, id: str, pipeline: PipelineFunction[P, R]) -> JobHandle[R]: ...
    @overload
    def job(self, id: str, pipeline: Pipeline[Any] | None = None) -> JobHandle[Any]: ...
    def job(
        self,
        id: str,  # noqa: A002 -- the word of the command line
        pipeline: Pipeline[Any] | PipelineFunction[Any, Any] | None = None,
    ) -> JobHandle[Any]:
        """Return a handle of a job; `pipeline` types its results."""
        known = None if pipeline is None else as_pipeline(pipeline)
        return JobHandle(id, self.runtime, self._actor, known)

    @classmethod
    def sync(cls, **arguments: Any) -> SyncClient:
        """Return a client for scripts and notebooks, with the same methods.

        Use it as a context manager. Args: as `Client`.
        """
        return SyncClient(cls(**arguments))


def read_rows(
    rt: Runtime, pipeline: Pipeline, rows: Rows[Any]
) -> tuple[AsyncIterator[ChunkInput], str]:
    """Return the chunks of any source, and the origin for the record."""
    if isinstance(rows, str | Path):
        source = str(rows)
        chunks = chunk_inputs(source, pipeline, s3=rt.objects.client)
        return chunks, printable_name(source)
    return row_chunks(rows, pipeline), "a program"
