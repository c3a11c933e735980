"""Run a pipeline over rows from a program or a notebook: `piecework.run` is this.

The worker and the models of AWS run on the loop of the caller, or for the blocking form
on a loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import threading
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Mapping,
)
from contextlib import aclosing, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import structlog
from pydantic import BaseModel

from piecework import telemetry
from piecework.declared import PipelineFunction, as_pipeline
from piecework.loading import with_mapped
from piecework.pipelines import Pipeline
from piecework.settings import Settings, load_settings
from piecework_orchestrator.client import Client, Done, Failed, JobHandle
from piecework_orchestrator.client.progress import progress_bar
from piecework_orchestrator.client.sync import one_by_one
from piecework_orchestrator.reading.watch import Watcher, watch
from piecework_simulation.in_process import (
    InProcessAws,
    RunningWorker,
    worker_beside,
)
from piecework_simulation.run_end import POLL_S, end_at_budget
from piecework_simulation.state.place import content_digest
from piecework_simulation.state.remembered import (
    JOURNAL_FLUSH_S,
    Remembered,
    remembering,
    submit_once,
)

R = TypeVar("R")
T = TypeVar("T")
Item = Done[R] | Failed

#: The headings of the table of what failed.
HEADINGS = ("CHUNK", "LABEL", "CODE", "STAGE", "MESSAGE")


@dataclass(frozen=True, slots=True)
class Ran(Generic[R]):
    """A run that has ended; printed, it is a table of what failed.

    Attributes:
        done: The chunks with a result, in the order of the rows.
        failed: The others, in the same order.
    """

    done: list[Done[R]]
    failed: list[Failed]

    @property
    def values(self) -> list[R]:
        """The results, in the order of the rows."""
        return [each.value for each in self.done]

    def __str__(self) -> str:
        """Return how many have a result, and a line for each that failed."""
        lines = [list(HEADINGS), *self._rows()] if self.failed else []
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        told = (
            "  ".join(
                word.ljust(width) for word, width in zip(line, widths, strict=True)
            ).rstrip()
            for line in lines
        )
        return "\n".join([self._head(), *told])

    def _repr_html_(self) -> str:
        """Return the same for a notebook."""
        rows = [f"<p>{self._head()}</p>"]
        if self.failed:
            heads = "".join(f"<th>{each}</th>" for each in HEADINGS)
            cells = (
                "".join(f"<td>{escape(word)}</td>" for word in row)
                for row in self._rows()
            )
            body = "".join(f"<tr>{each}</tr>" for each in cells)
            rows.append(f"<table><tr>{heads}</tr>{body}</table>")
        return "".join(rows)

    def _head(self) -> str:
        return f"{len(self.done):,} done, {len(self.failed):,} failed"

    def _rows(self) -> Iterator[list[str]]:
        for each in self.failed:
            error = each.error
            code = error.code or each.status
            yield [str(each.chunk), each.label, code, error.stage, error.message]


@dataclass(slots=True)
class Run(Generic[R]):
    """A run that begins when it is awaited, iterated or waited for.

    `await run` and `run.wait()` return all; `async for` and `for` yield each chunk when
    it ends. Each of them begins the run anew; with a state file, it goes on.
    """

    pipeline: Pipeline
    rows: Any
    state: Path | None
    fresh: bool
    progress: bool
    max_chunks: int | None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __await__(self) -> Generator[Any, None, Ran[R]]:
        """Return the whole run when it has ended."""
        return self._collect().__await__()

    def __aiter__(self) -> AsyncGenerator[Item[R], None]:  # noqa: PYI058 -- its `aclose`
        """Yield each chunk when it ends.

        Who leaves the loop early closes it by `contextlib.aclosing(aiter(run))`.
        """
        return self._items()

    def __iter__(self) -> Iterator[Item[R]]:
        """Yield each chunk when it ends, for a program without a loop."""
        with LoopInThread() as run:
            items = self._items()
            try:
                yield from one_by_one(run, items)
            finally:
                run(close(items))

    def wait(self) -> Ran[R]:
        """Return the whole run when it has ended, for a program without a loop."""
        return gathered(self)

    async def _collect(self) -> Ran[R]:
        async with aclosing(self._items()) as items:
            return gathered([item async for item in items])

    async def _items(self) -> AsyncGenerator[Item[R], None]:
        """Run a worker and the models of AWS until the job has ended."""
        if not structlog.is_configured():
            telemetry.configure("critical")  # the failed chunks tell the errors
        overrides: dict[str, Any] = {"max_code_waits": 0}  # no worker has other code
        if self.max_chunks is not None:
            overrides["max_chunks"] = self.max_chunks
        if self.state is not None:
            overrides["journal_flush_s"] = JOURNAL_FLUSH_S
        settings = load_settings(**overrides)
        rows, source, digest = await readable(self.rows)
        with remembering(self.state, keeps=True, fresh=self.fresh, say=say) as memory:
            async with (
                self._worker(settings, source, digest, memory) as (aws, running),
                Client(runtime=aws.runtime()) as client,
            ):
                submit = (client, self.pipeline, rows, self.options)
                job = await submit_once(*submit, memory)
                items = follow(job, running, memory, progress=self.progress)
                async with aclosing(items):
                    async for item in items:
                        yield cast("Item[R]", item)

    @asynccontextmanager
    async def _worker(
        self, settings: Settings, source: str, digest: str, memory: Remembered | None
    ) -> AsyncIterator[tuple[InProcessAws, RunningWorker]]:
        aws = InProcessAws(settings)
        if memory is not None:
            await memory.go_on(aws, self.pipeline, source, digest, say)
        pipelines = with_mapped([self.pipeline])
        async with worker_beside(aws, pipelines, modules_of(self.pipeline)) as running:
            try:
                yield aws, running
            except BaseException:
                running.worker.grace_s = 0.0
                raise


async def follow(
    job: JobHandle[Any],
    running: RunningWorker,
    memory: Remembered | None,
    *,
    progress: bool,
) -> AsyncGenerator[Done[Any] | Failed, None]:
    """Yield each chunk of a job when it ends; raise what ends the worker before."""
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    if memory is not None:
        memory.file.on_failure = failed.set_exception
    with progress_bar() if progress else nullcontext(Watcher(lambda _: None)) as bar:
        beside = [
            asyncio.create_task(watch(job.rt, job.id, bar, poll_s=POLL_S)),
            asyncio.create_task(end_at_budget(say, job.rt, job, asyncio.Event())),
        ]
        ends: set[asyncio.Future[Any]] = {running.task, failed}
        items, over = job.results(), object()
        try:
            while True:
                coming = asyncio.ensure_future(anext(items, over))
                done, _ = await asyncio.wait(
                    {coming, *ends}, return_when=asyncio.FIRST_COMPLETED
                )
                if coming not in done:
                    coming.cancel()
                    for each in done:
                        each.result()
                if (item := await coming) is over:
                    break
                yield cast("Done[Any] | Failed", item)
            await beside[0]  # the bar shows the end
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)


async def readable(rows: Any) -> tuple[Any, str, str]:
    """Return rows that can be read, their source in words, and their digest."""
    if isinstance(rows, str | Path):
        return rows, str(rows), content_digest(str(rows))
    if isinstance(rows, AsyncIterable):
        rows = [row async for row in rows]
    elif not isinstance(rows, Mapping | BaseModel):
        rows = list(rows)
    digest = hashlib.sha256()
    for row in rows if isinstance(rows, list) else ():
        text = row.model_dump_json() if isinstance(row, BaseModel) else repr(row)
        digest.update(f"{text}\0".encode(errors="backslashreplace"))
    return rows, "a program", digest.hexdigest()


def modules_of(pipeline: Pipeline) -> list[str]:
    """Return the module that child processes load; none: it cannot be imported."""
    module = str(getattr(pipeline.stages[0].run, "__module__", "__main__"))
    return [] if module == "__main__" else [module]


def gathered(items: Any) -> Ran[Any]:
    """Return a run by its chunks; what ended last counts."""
    last = {item.chunk: item for item in items}
    ordered = [last[number] for number in sorted(last)]
    done = [item for item in ordered if isinstance(item, Done)]
    return Ran(done, [item for item in ordered if isinstance(item, Failed)])


class LoopInThread:
    """An event loop in a thread, so that a notebook may have one of its own."""

    def __enter__(self) -> Callable[[Coroutine[Any, Any, T]], T]:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self._run

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise


async def close(items: Any) -> None:
    """Close an iterator that may be in use by a cancelled task."""
    with suppress(RuntimeError):
        await items.aclose()


def say(line: str) -> None:
    """Write a remark."""
    sys.stderr.write(f"{line}\n")


def run_rows(
    pipeline: Pipeline[Any] | PipelineFunction[Any, Any],
    rows: Any,
    *,
    state: str | Path | None,
    fresh: bool,
    progress: bool | None,
    max_chunks: int | None,
    options: Mapping[str, Any],
) -> Run[Any]:
    """Return a run that has not begun; see `piecework.run`."""
    shown = progress
    if shown is None:
        shown = sys.stderr.isatty() or hasattr(
            sys.modules.get("IPython"), "get_ipython"
        )
    path = None if state is None else Path(state).absolute()
    declared = as_pipeline(pipeline)
    return Run(declared, rows, path, fresh, shown, max_chunks, options)
