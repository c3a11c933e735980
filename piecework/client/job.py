"""One submitted job, as a program sees it: its state, its results, its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Container, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from piecework.client.progress import OnProgress, progress_bar
from piecework.domain import values
from piecework.domain.model import ChunkStatus, Job, JobRef, JobStatus
from piecework.errors import UsageError
from piecework.pipelines import Pipeline, Stage
from piecework.runtime import Runtime
from piecework_orchestrator.cancel import cancel
from piecework_orchestrator.export import export
from piecework_orchestrator.inspector import (
    Document,
    dead_letters_of,
    job_document,
    require_job,
)
from piecework_orchestrator.redrive import RedriveRequest, redrive
from piecework_orchestrator.results import (
    EndedChunk,
    follow_ended_chunks,
    result_json,
)
from piecework_orchestrator.resume import ResumeRequest, require_verb, resume
from piecework_orchestrator.selection import Filter, select
from piecework_orchestrator.times import parse_deadline
from piecework_orchestrator.watch import Watcher, watch

R = TypeVar("R")

#: A time, a span from now, or either one as text: `2h`, `2026-11-22T18:00:00Z`.
Deadline = datetime | timedelta | str


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    """A chunk with its result."""

    chunk: int
    label: str
    value: R


@dataclass(frozen=True, slots=True)
class ChunkError:
    """Why a chunk has no result.

    Attributes:
        message: The message of the dead letter; empty for a cancelled chunk.
        stage: The stage in which the chunk died; empty for a cancelled chunk.
    """

    code: str
    message: str = ""
    stage: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """A chunk that ended without a result.

    Attributes:
        status: DEAD or CANCELLED.
    """

    chunk: int
    label: str
    status: str
    error: ChunkError


@dataclass(frozen=True, slots=True)
class JobView:
    """The state of a job at one moment.

    Attributes:
        counts: The number of chunks by status.
        dead_letters: The number of open dead letters.
        document: The fields that `piecework jobs show -o json` writes.
    """

    id: str
    status: JobStatus
    chunks: int
    counts: Mapping[str, int]
    dead_letters: int
    document: Document = field(repr=False)

    @property
    def ended(self) -> bool:
        """Whether no chunk is open any more."""
        return self.status.ended

    @property
    def succeeded(self) -> bool:
        """Whether every chunk has a result, and the join has run."""
        return self.status is JobStatus.SUCCEEDED

    @classmethod
    def read(cls, document: Document) -> Self:
        """Return the view of a document."""
        return cls(
            document["job"],
            JobStatus(document["status"]),
            document["chunks"],
            document["counts"],
            document["dead_letters"],
            document,
        )


@dataclass(frozen=True, slots=True)
class JobHandle(Generic[R]):
    """A job of a client; every method reads or changes the record.

    Attributes:
        id: The job id, as the command line shows it.
        pipeline: Types the results; None: results are plain JSON values.
        actor: The name of the operator in the record.
        created: Whether this submit created the job; a repeated submit finds it.

    Raises:
        NotFoundError: Every method, if the job does not exist:
            `job.record.not_found`.
    """

    id: str
    rt: Runtime = field(repr=False)
    actor: str
    pipeline: Pipeline | None = field(default=None, repr=False)
    created: bool = False

    @property
    def ref(self) -> JobRef:
        """The job's tenant and id."""
        return JobRef(self.rt.settings.tenant, self.id)

    async def view(self) -> JobView:
        """Return the state of the job now."""
        return JobView.read(await job_document(self.rt, await self._record()))

    async def wait(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 -- the message names the job
        on_progress: OnProgress = lambda _: None,
        *,
        progress: bool = False,
    ) -> JobView:
        """Return the state of the job when it has ended.

        Args:
            timeout: Seconds; None: no limit. The job continues after it.
            on_progress: Receives the counts of each poll.
            progress: Show a bar instead, in a notebook or on a terminal.

        Raises:
            WaitTimeoutError: `cli.wait.timeout`.
        """
        shown = progress_bar() if progress else nullcontext(Watcher(on_progress))
        with shown as watcher:
            record = await watch(self.rt, self.id, watcher, timeout)
        return JobView.read(await job_document(self.rt, record))

    async def results(
        self, *, skip: Container[int] = ()
    ) -> AsyncIterator[Done[R] | Failed]:
        """Yield every chunk when it ends, until the job has ended.

        A chunk that ends again in another way meanwhile, for example after a redrive,
        is yielded again.

        Args:
            skip: Numbers of chunks to leave out, which the program has already.

        Raises:
            StateError, PermanentError: A stored result cannot be read.
        """
        cancel_code = ""
        async for ended in follow_ended_chunks(self.rt, self.id, skip):
            if ended.chunk.status is ChunkStatus.CANCELLED and not cancel_code:
                cancel_code = (await self._record()).cancel_code
            yield await self._item(ended, cancel_code)

    async def cancel(self, reason: str = "", *, compensate: bool = False) -> JobView:
        """Cancel the job; chunks that have a result keep it.

        Args:
            reason: Kept in the record.
            compensate: Compensate the effects of open chunks.

        Raises:
            UsageError: `job.state.not_cancellable`.
        """
        await cancel(
            self.rt, self.ref, actor=self.actor, reason=reason, compensate=compensate
        )
        return await self.view()

    async def retry(self, reason: str = "", deadline: Deadline | None = None) -> int:
        """Reopen the chunks without a result of a job that ended PARTIAL or FAILED.

        Return how many.

        Raises:
            UsageError: The job has not ended so; `job.retry.nothing_left`.
        """
        return await self._reopen("retry", reason, deadline)

    async def resume(self, reason: str = "", deadline: Deadline | None = None) -> int:
        """Reopen the chunks without a result of a cancelled job; return how many.

        Raises:
            UsageError: The job is not cancelled; `job.retry.nothing_left`.
        """
        return await self._reopen("resume", reason, deadline)

    async def redrive(
        self,
        reason: str,
        *,
        code: str | None = None,
        fingerprint: str | None = None,
        stage: str | None = None,
        chunks: tuple[int, ...] = (),
        rate: float | None = None,
    ) -> int:
        """Redrive the open dead letters that match; return how many.

        Args:
            reason: Why they will succeed now; kept in the record.
            code: An error code; `llm.*` matches all that begin with `llm.`.
            fingerprint: A cause, as `piecework dlq stats` shows it.
            stage: The stage in which they died.
            chunks: Numbers of chunks; empty: all.
            rate: Chunks dispatched a second; None: all at once.

        Raises:
            UsageError: `job.state.not_finished`, `job.retry.nothing_left`.
        """
        wanted = Filter(self.id, code, fingerprint, stage, None, chunks)
        letters = await select(self.rt, wanted)
        request = RedriveRequest(self.ref, letters, self.actor, reason, rate)
        count, _ = await redrive(self.rt, request)
        return count

    async def export(self, path: str | Path) -> int:
        """Write the results of all ended chunks to a file; return how many.

        The suffix decides the form: `.jsonl`, `.csv` or `.parquet`.

        Raises:
            UsageError: `cli.usage.invalid`: another suffix, or a missing library.
        """
        return await export(self.rt, await self._record(), Path(path))

    async def _record(self) -> Job:
        return await require_job(self.rt, self.id)

    async def _reopen(self, verb: str, reason: str, deadline: Deadline | None) -> int:
        record = await self._record()
        require_verb(record, verb)
        until = epoch_of(deadline, self.rt.clock())
        request = ResumeRequest(self.ref, self.actor, reason, until)
        count, _ = await resume(self.rt, request)
        return count

    async def _item(self, ended: EndedChunk, cancel_code: str) -> Done[R] | Failed:
        chunk = ended.chunk
        number, label = chunk.ref.chunk, chunk.label
        if ended.succeeded:
            text = await result_json(self.rt, ended)
            value = values.decode(self._result_function(), text)
            return Done(number, label, value)
        error = ChunkError(chunk.error_code or cancel_code)
        if chunk.status is ChunkStatus.DEAD:
            letter = await dead_letters_of(self.rt).read(chunk.ref, chunk.gen)
            if letter is not None:
                error = ChunkError(letter.error_code, letter.error, letter.stage)
        return Failed(number, label, str(chunk.status), error)

    def _result_function(self) -> Any:
        if self.pipeline is None:
            return any_json
        stages: list[Stage] = list(self.pipeline.stages)
        return stages[self.pipeline.result_index].run


def any_json() -> Any:
    """Stand for the result function of a pipeline that the program does not have."""


def epoch_of(deadline: Deadline | None, now: float) -> float | None:
    """Return a deadline in epoch seconds; None: none was given.

    Raises:
        UsageError: `cli.usage.invalid`: it is not a time with a zone, or has passed.
    """
    match deadline:
        case None:
            return None
        case timedelta():
            moment = now + deadline.total_seconds()
        case datetime():
            if deadline.tzinfo is None:
                message = f"The deadline {deadline} has no time zone."
                raise UsageError(message, next_step="Pass a datetime with a tzinfo.")
            moment = deadline.timestamp()
        case _:
            return parse_deadline(deadline, now)
    return parse_deadline(datetime.fromtimestamp(moment).astimezone().isoformat(), now)
