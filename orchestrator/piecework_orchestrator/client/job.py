"""One submitted job, as a program sees it: its state, its results, its end.

The file is long, because a program finds all operations of a job on one class.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Container
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from typing_extensions import Unpack

from piecework.domain import values
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.job import Job
from piecework.domain.priority import parse_priority
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.states import ChunkStatus
from piecework.errors import UsageError
from piecework.jobs.budgeting import set_budget
from piecework.jobs.fan_out import Progress
from piecework.jobs.priority import set_priority
from piecework.pipelines import Pipeline, Stage
from piecework.runtime import Runtime
from piecework.store.dead_letters import Closing
from piecework_orchestrator.client.arguments import (
    Deadline,
    Timeout,
    epoch_of,
    require_cap,
    seconds_of,
)
from piecework_orchestrator.client.progress import OnProgress, progress_bar
from piecework_orchestrator.client.views import (
    ChunkError,
    Done,
    Failed,
    JobFacts,
    JobView,
)
from piecework_orchestrator.cost.bill import TaskSize
from piecework_orchestrator.cost.children import bill_below
from piecework_orchestrator.cost.job import job_bill, region_of
from piecework_orchestrator.cost.prices import load_prices
from piecework_orchestrator.dead_letters.closing import (
    AT_ONCE,
    Redriven,
    RedriveOptions,
    discard_selected,
    redrive_selected,
    select_open,
)
from piecework_orchestrator.dead_letters.compensate import (
    HandOutcome,
    compensate_selected,
)
from piecework_orchestrator.dead_letters.letters import (
    dead_letter_document,
    write_letters,
)
from piecework_orchestrator.operate.approvals import (
    AnswerRequest,
    answer,
    chunk_question,
    open_questions,
)
from piecework_orchestrator.operate.cancel import cancel
from piecework_orchestrator.operate.changes import accept_changes, preview
from piecework_orchestrator.operate.compensation_plan import (
    PlanRequest,
    compensation_plans,
    require_pipeline,
)
from piecework_orchestrator.operate.deletion import delete
from piecework_orchestrator.operate.effects import (
    ResolutionRequest,
    effects_in_doubt,
    resolve,
)
from piecework_orchestrator.operate.pause import pause, resume
from piecework_orchestrator.operate.retry import RetryRequest, retry
from piecework_orchestrator.operate.run_again import (
    RunAgain,
    chunks_to_retry,
    preview_run_again,
)
from piecework_orchestrator.reading.call_documents import (
    call_document,
    call_documents,
)
from piecework_orchestrator.reading.chunk_documents import chunk_document, read_chunks
from piecework_orchestrator.reading.events import job_events
from piecework_orchestrator.reading.job_documents import (
    Document,
    budget_facts,
    dead_letters_of,
    explain,
    job_document,
    job_facts,
    read_job,
    require_job,
)
from piecework_orchestrator.reading.job_list import parse_status
from piecework_orchestrator.reading.selection import Filter, LetterFilter, select
from piecework_orchestrator.reading.timeline import chunk_timeline, job_timeline
from piecework_orchestrator.reading.watch import Watcher, watch
from piecework_orchestrator.results.artifacts import save_artifacts
from piecework_orchestrator.results.call_export import export_calls
from piecework_orchestrator.results.difference import Totals, differences
from piecework_orchestrator.results.export import export
from piecework_orchestrator.results.results import (
    EndedChunk,
    follow_ended_chunks,
    result_json,
)
from piecework_orchestrator.submit.sample import (
    forecast_job,
    require_sampled,
    wait_for_sample,
)

R = TypeVar("R")

#: The default size of a worker's task.
SMALL = TaskSize()


@dataclass(frozen=True, slots=True)
class JobHandle(Generic[R]):
    """A job of a client; every method reads or changes the record.

    Attributes:
        id: The job id, as the command line shows it.
        pipeline: Types the results; None: results are plain JSON values.
        actor: The name of the operator in the record.
        created: Whether this submit created the job; a repeated submit finds it.
        refused: What is wrong with the rows that this submit left out or made dead
            letters: a line for each of the first 20, and the count of the others.

    Raises:
        NotFoundError: Every method, if the job does not exist:
            `job.record.not_found`.
    """

    id: str
    rt: Runtime = field(repr=False)
    actor: str
    pipeline: Pipeline | None = field(default=None, repr=False)
    created: bool = False
    refused: tuple[str, ...] = field(default=(), repr=False)

    @property
    def ref(self) -> JobRef:
        """The job's tenant and id."""
        return JobRef(self.rt.settings.tenant, self.id)

    # ── read ──────────────────────────────────────────────────────────────────

    async def facts(self) -> JobFacts:
        """Return the facts on the job's own item: one request, whatever its size.

        Those of a deleted job are its tombstone.
        """
        record = await read_job(self.rt, self.id)
        return JobFacts.read(job_facts(record, self.rt.clock()))

    async def view(self) -> JobView:
        """Return the state of the job now, with its chunks by status."""
        return JobView.read(await job_document(self.rt, await self._record()))

    async def explain(self) -> Document:
        """Return why the job has not ended: `findings`, the most important first.

        Each has `code`, `message`, `chunks`, `next`, and `since` and `until` if known.
        """
        return await explain(self.rt, await self._record())

    async def timeline(self, chunk: int | None = None) -> Document:
        """Return what happened, and when: `spans` and `events`.

        `chunk`: the claims, waits and stages of this chunk; None: the phases of the
        job and its slowest chunks.

        Raises:
            NotFoundError: `job.chunk.not_found`.
        """
        record = await self._record()
        if chunk is None:
            return await job_timeline(self.rt, record)
        return await chunk_timeline(self.rt, record, self.ref.chunk(chunk))

    async def events(self) -> list[Document]:
        """Return the events of the job, the oldest first."""
        return await job_events(self.rt, await self._record())

    async def chunks(self, *status: str) -> AsyncIterator[Document]:
        """Yield the chunks by number; `status`: only these, such as `DEAD`.

        Raises:
            UsageError: `cli.usage.invalid`: not a status.
        """
        wanted = {parse_status(each, ChunkStatus) for each in status}
        async for document in read_chunks(self.rt, await self._record(), wanted):
            yield document

    async def chunk(self, number: int) -> Document:
        """Return a chunk with its stages, effects, errors and compensations.

        Raises:
            NotFoundError: `job.chunk.not_found`.
            UsageError: `cli.usage.invalid`: not the number of a chunk.
        """
        if not isinstance(number, int):
            raise UsageError(f"{number!r} is not a chunk number.")
        return await chunk_document(self.rt, await self._record(), number)

    async def calls(self, number: int) -> list[Document]:
        """Return how each call of a chunk went, in the order of the requests.

        Each has its stage, dependency, attempts, times, tokens and price, and `end`:
        `made`, `cached`, `found`, `replayed`, `failed` or `cut off`.

        Raises:
            NotFoundError: `job.chunk.not_found`.
        """
        return await call_documents(self.rt, await self._record(), number)

    async def call(self, number: int, call: int) -> Document:
        """Return a call of a chunk by its number, with its arguments and answer.

        Its arguments are there if they were kept: see the setting `record_calls`.
        `missing` says why they are not.

        Raises:
            NotFoundError: `job.chunk.not_found`, `job.call.not_found`.
        """
        return await call_document(self.rt, await self._record(), number, call)

    async def wait(
        self,
        timeout: Timeout | None = None,  # noqa: ASYNC109 -- the message names the job
        on_progress: OnProgress = lambda _: None,
        *,
        progress: bool = False,
    ) -> JobView:
        """Return the state of the job when it has ended.

        Args:
            timeout: Seconds, or a span such as `15m`; None: no limit. The job continues
                after it.
            on_progress: Receives the counts of each poll.
            progress: Show a bar instead, in a notebook or on a terminal.

        Raises:
            WaitTimeoutError: `cli.wait.timeout`.
            UsageError: `cli.usage.invalid`: the timeout is not a span of time.
        """
        limit_s = seconds_of(timeout)
        shown = progress_bar() if progress else nullcontext(Watcher(on_progress))
        with shown as watcher:
            record = await watch(self.rt, self.id, watcher, limit_s)
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
        async for ended in follow_ended_chunks(self.rt, self.id, skip):
            yield await self._item(ended)

    async def export(self, to: str | Path, *, with_version: bool = False) -> int:
        """Write the results of all ended chunks to a file; return how many.

        Args:
            to: A path, or `s3://bucket/key`. The suffix decides the form: `.jsonl`,
                `.csv` or `.parquet`.
            with_version: Add the column `code_version`: the code that made the result.

        Raises:
            UsageError: `cli.usage.invalid`: another suffix, or a missing library.
            StoreError: S3 cannot be reached.
        """
        record = await self._record()
        return await export(self.rt, record, to, with_version=with_version)

    async def export_calls(self, to: str | Path, chunk: int | None = None) -> int:
        """Write the calls of the job, or of a chunk, to a file: one row a call.

        Arguments and answers are not among them: `call` has those of one.

        Args:
            to: A path, or `s3://bucket/key`. The suffix decides the form: `.jsonl`,
                `.csv` or `.parquet`.
            chunk: Only the calls of this chunk.

        Raises:
            UsageError: `cli.usage.invalid`: another suffix, or a missing library.
            StoreError: AWS cannot be reached.
        """
        return await export_calls(self.rt, await self._record(), to, chunk)

    async def differences(self, other: str) -> AsyncIterator[Document]:
        """Yield the chunks whose results differ from those of another job, by number.

        Each has `one`, the side of this job, and `other`: status, value, code version
        and dollars. A side without an ended chunk is None.

        Raises:
            NotFoundError: `job.record.not_found`.
            StateError, PermanentError: A stored result cannot be read.
        """
        record = await self._record()
        right = await require_job(self.rt, other)
        async for row in differences(self.rt, record, right, Totals()):
            yield row

    async def cost(
        self, *, region: str = "", prices: Path | None = None, task: TaskSize = SMALL
    ) -> Document:
        """Return the bill of the job so far, in dollars, with its counts.

        `children` has the sums of the jobs below it, which are in none of its lines;
        None: it has started none.

        Args:
            region: The region whose prices apply; default: the deployment's.
            prices: A price file that overrides the built-in prices.
            task: The size of a worker's task; the default is a small one.

        Raises:
            UsageError: `config.price.missing`, `config.prices.invalid`,
                `cli.extra.missing`.
        """
        table, record = load_prices(prices), await self._record()
        priced_in = region or region_of(self.rt)
        bill = await job_bill(self.rt, record, table, priced_in, task)
        below = await bill_below(self.rt, record, table, priced_in, task)
        return {**bill, "children": below}

    async def forecast(
        self,
        timeout: Timeout | None = None,  # noqa: ASYNC109 -- the message names the job
        *,
        wait: bool = True,
        prices: Path | None = None,
        on_progress: Progress = lambda *_: None,
    ) -> Document:
        """Return what the rest of a job with a sample will use, and how long it takes.

        `calls`, `tokens_in`, `tokens_out`, `usd` and `time_s` have `p50` and `p90`;
        `notes` say why they may be wrong. `usd` is that of the models, `aws_usd` AWS's.

        Args:
            timeout: As of `wait`; the sample continues after it.
            wait: Wait until the sample has ended; else from what has ended so far.
            prices: A price file that overrides the built-in prices.
            on_progress: Called with `sampled` and the ended chunks of the sample.

        Raises:
            WaitTimeoutError: `cli.wait.timeout`.
            UsageError: `job.sample.missing`; `config.prices.invalid`,
                `cli.extra.missing`.
        """
        limit_s = seconds_of(timeout)
        if wait:
            await wait_for_sample(self.rt, self.id, limit_s, on_progress)
        job = await require_sampled(self.rt, self.id)
        return await forecast_job(self.rt, job, prices)

    async def save(
        self, folder: str | Path, remark: Callable[[str], None] = lambda _: None
    ) -> list[Path]:
        """Save the join's artifacts and the certificate; return the files.

        Args:
            folder: Created if it does not exist.
            remark: Receives a line for each file, and one if the join failed.

        Raises:
            UsageError: `job.state.not_finished`.
        """
        return await save_artifacts(self.rt, await self._record(), Path(folder), remark)

    # ── change ────────────────────────────────────────────────────────────────

    async def cancel(
        self,
        reason: str = "",
        *,
        compensate: bool = False,
        on_recorded: Callable[[Job], None] = lambda _: None,
        on_progress: Progress = lambda *_: None,
    ) -> JobFacts:
        """Cancel the job; chunks that have a result keep it.

        Args:
            reason: Kept in the record.
            compensate: Compensate the effects of open chunks.
            on_recorded: Called when the cancel is recorded; it happens from then on.
            on_progress: Called while the chunks are marked.

        Raises:
            UsageError: `job.state.not_cancellable`,
                `job.cancel.without_compensation`.
        """
        await self._record()
        job = await cancel(
            self.rt,
            self.ref,
            actor=self.actor,
            reason=reason,
            compensate=compensate,
            on_recorded=on_recorded,
            progress=on_progress,
        )
        return JobFacts.read(job_facts(job, self.rt.clock()))

    async def compensation_plan(
        self, chunk: int | None = None
    ) -> AsyncIterator[list[Document]]:
        """Yield, for each chunk, the steps of a `cancel(compensate=True)`.

        Without the handle's pipeline, functions and the pivot are unknown.

        Args:
            chunk: Only this chunk; None: all that were started and have not ended.

        Raises:
            NotFoundError: `job.chunk.not_found`.
            UsageError: `cli.usage.invalid`: the job belongs to another pipeline.
        """
        record = await self._record()
        require_pipeline(record, self.pipeline)
        request = PlanRequest(record, self.pipeline, chunk)
        async for steps in compensation_plans(self.rt, request):
            yield steps

    async def set_priority(self, priority: str, reason: str = "") -> JobFacts:
        """Change the share of the job in the workers: `high`, `normal` or `low`.

        Chunks that have a message keep their place in the queue. The jobs that it has
        started follow, and those that it will start.

        Raises:
            UsageError: `cli.usage.invalid`: not a priority, or the job has no backlog.
        """
        wanted, job = parse_priority(priority), await self._record()
        if not await set_priority(self.rt, job, wanted):
            message = f"Job {self.id} has no backlog: each chunk has a message already."
            if job.status.ended:
                message = f"Job {self.id} has ended ({job.status})."
            raise UsageError(message, next_step=f"`piecework jobs show {self.id}`")
        facts = {"actor": self.actor, "priority": str(wanted), "reason": reason}
        await self.rt.jobs.record(self.ref, "priority", facts)
        return await self.facts()

    async def unpin(self, reason: str = "") -> JobFacts:
        """Let workers of any code version run the job.

        Raises:
            UsageError: `cli.usage.invalid`: the job is not pinned.
        """
        job = await self._record()
        if not job.pinned_to or not await self.rt.jobs.unpin(job):
            message = f"Job {self.id} is not pinned to a code version."
            raise UsageError(message, next_step=f"`piecework jobs show {self.id}`")
        facts = {"actor": self.actor, "code_version": job.pinned_to, "reason": reason}
        await self.rt.jobs.record(self.ref, "unpinned", facts)
        return await self.facts()

    async def changes(self) -> Document:
        """Return what `accept_changes` would do, as `Preview` has it."""
        return (await preview(self.rt, await self._record())).document

    async def accept_changes(self, reason: str, code_version: str = "") -> JobFacts:
        """Let newer code go on with the chunks that it has stopped.

        What earlier claims did until now stops no chunk any more, so an act may happen
        twice: see `changes`. A dead letter needs a redrive after it.

        Args:
            reason: Kept in the record.
            code_version: Only this version goes on; empty: each one.

        Raises:
            UsageError: `cli.reason.missing`; `cli.usage.invalid`: no worker can have
                the version; `job.changes.none`: no chunk is stopped.
        """
        who = {"actor": self.actor, "reason": reason}
        job = await self._record()
        job = await accept_changes(self.rt, job, **who, code_version=code_version)
        return JobFacts.read(job_facts(job, self.rt.clock()))

    async def set_budget(
        self,
        usd: float | str | None = None,
        tokens: int | str | None = None,
        reason: str = "",
        *,
        on_progress: Progress = lambda *_: None,
    ) -> JobFacts:
        """Set what the calls of the job may spend; resume it if its budget paused it.

        The `budget` of the returned document is the one in force.

        Raises:
            UsageError: `submit.budget.invalid`; `job.budget.none`: the job was
                submitted without a budget of that kind.
        """
        cap, job = require_cap(usd, tokens), await self._record()
        who = {"actor": self.actor, "reason": reason}
        await set_budget(self.rt, job, cap, **who, progress=on_progress)
        facts = await self.facts()
        return JobFacts.read(facts.document | await budget_facts(self.rt, job))

    async def retry(
        self,
        reason: str = "",
        deadline: Deadline | None = None,
        *,
        again: RunAgain | None = None,
        unreadable: list[ChunkRef] | None = None,
        on_progress: Progress = lambda *_: None,
    ) -> int:
        """Reopen the chunks without a result of a job that has ended; return how many.

        `again`: from a completed stage; see `run_again_plan` for what that repeats.
        `unreadable` is as in `Client.dead_letters`; the chunks in it stay dead.
        `on_progress`: called with each step, such as `read`, and its chunks so far.

        Raises:
            UsageError: `job.state.not_finished`; `job.retry.nothing_left`;
                `job.retry.in_progress`; `job.retry.incomplete`: some chunks are;
                `redrive.effect.repeated`, `redrive.effect.unresolved`,
                `redrive.stage.before_pivot`, `redrive.stage.unknown`,
                `redrive.value.invalid`: of `again`.
        """
        await self._record()
        until = epoch_of(deadline, self.rt.clock())
        by = self.ref, self.actor, reason
        request = RetryRequest(*by, until, progress=on_progress, again=again)
        count, _ = await retry(self.rt, request, unreadable)
        return count

    async def run_again_plan(
        self, again: RunAgain, chunks: Container[int] | None = None
    ) -> Document:
        """Return what running chunks from a completed stage repeats; change nothing.

        `chunks`: only these; None: all without a result. The keys are those of
        `RunAgainPreview`.

        Raises:
            UsageError: `redrive.stage.unknown`, `redrive.value.invalid`.
        """
        record = await self._record()
        found = (
            (job, chunk)
            async for job, chunk in chunks_to_retry(self.rt, record)
            if chunks is None or chunk.ref.chunk in chunks
        )
        return (await preview_run_again(self.rt, found, again)).document

    async def pause(self, reason: str = "") -> JobFacts:
        """Pause the job: calls in flight finish, and no further call starts.

        Raises:
            UsageError: `job.state.not_pausable`.
        """
        await self._record()
        job = await pause(self.rt, self.ref, actor=self.actor, reason=reason)
        return JobFacts.read(job_facts(job, self.rt.clock()))

    async def resume(
        self, reason: str = "", *, on_progress: Progress = lambda *_: None
    ) -> JobFacts:
        """End the pause of the job; its open chunks continue from their checkpoints.

        Raises:
            UsageError: `job.state.not_paused`.
        """
        await self._record()
        job = await resume(
            self.rt, self.ref, actor=self.actor, reason=reason, progress=on_progress
        )
        return JobFacts.read(job_facts(job, self.rt.clock()))

    async def delete(
        self, reason: str, *, on_progress: Progress = lambda *_: None
    ) -> JobFacts:
        """Delete all data of the job, which must have ended; return its tombstone.

        The id cannot be used again. A repeated call continues an interrupted one.

        Args:
            reason: Kept in the tombstone.
            on_progress: Receives the rows and objects that are deleted so far.

        Raises:
            UsageError: `job.state.not_deletable`, `cli.reason.missing`.
        """
        await read_job(self.rt, self.id)
        job = await delete(
            self.rt, self.ref, actor=self.actor, reason=reason, progress=on_progress
        )
        return JobFacts.read(job_facts(job, self.rt.clock()))

    # ── dead letters and effects ──────────────────────────────────────────────

    async def dead_letters(
        self,
        *,
        closed: bool = False,
        unreadable: list[ChunkRef] | None = None,
        **filters: Unpack[LetterFilter],
    ) -> list[DeadLetterRow]:
        """Return the dead letters that match; see `Client.dead_letters`."""
        wanted = Filter(self.id, closed=closed, **filters)
        return await select(self.rt, wanted, unreadable)

    async def dead_letter(self, chunk: int) -> Document:
        """Return the last dead letter of a chunk: error history, lineage and payload.

        Raises:
            NotFoundError: `job.dead_letter.not_found`.
        """
        await self._record()
        return await dead_letter_document(self.rt, self.ref.chunk(chunk))

    async def export_dead_letters(
        self,
        to: str | Path,
        *,
        payloads: bool = False,
        closed: bool = False,
        unreadable: list[ChunkRef] | None = None,
        **filters: Unpack[LetterFilter],
    ) -> int:
        """Write the dead letters that match to a file; see the method of `Client`."""
        found = await self.dead_letters(closed=closed, unreadable=unreadable, **filters)
        return await write_letters(
            self.rt, found, to, payloads=payloads, unreadable=unreadable
        )

    async def redrive(
        self,
        reason: str,
        options: RedriveOptions = AT_ONCE,
        *,
        unreadable: list[ChunkRef] | None = None,
        **filters: Unpack[LetterFilter],
    ) -> Redriven:
        """Redrive the open dead letters that match; see `Client.redrive`.

        New payloads are checked against the handle's pipeline. `unreadable` is as in
        `Client.dead_letters`.
        """
        selection = await select_open(self.rt, Filter(self.id, **filters), unreadable)
        edit = options.edit
        if edit is not None and edit.pipeline is None:
            options = replace(options, edit=replace(edit, pipeline=self.pipeline))
        closing = Closing(self.actor, reason)
        return await redrive_selected(self.rt, selection, closing, options)

    async def discard(
        self,
        reason: str,
        *,
        unreadable: list[ChunkRef] | None = None,
        **filters: Unpack[LetterFilter],
    ) -> int:
        """Discard the open dead letters that match; see `Client.discard`.

        `unreadable` is as in `Client.dead_letters`.
        """
        selection = await select_open(self.rt, Filter(self.id, **filters), unreadable)
        closing = Closing(self.actor, reason)
        return sum((await discard_selected(self.rt, selection, closing)).values())

    async def compensate(
        self,
        reason: str,
        outcome: HandOutcome | None = None,
        *,
        unreadable: list[ChunkRef] | None = None,
        **filters: Unpack[LetterFilter],
    ) -> int:
        """Run the failed compensations that match again; see `Client.compensate`.

        `unreadable` is as in `Client.dead_letters`.
        """
        wanted = Filter(self.id, uncompensated=True, **filters)
        selection = await select_open(self.rt, wanted, unreadable)
        closing = Closing(self.actor, reason)
        counts = await compensate_selected(self.rt, selection, closing, outcome)
        return sum(counts.values())

    async def effects(self, chunk: int | None = None) -> AsyncIterator[Document]:
        """Yield the effects in doubt of the chunks that have ended.

        `chunk`: those of this chunk, whatever its status.
        """
        record = await self._record()
        async for document in effects_in_doubt(self.rt, record, chunk):
            yield document

    async def resolve_effect(
        self,
        chunk: int,
        key: str,
        reason: str,
        *,
        happened: bool,
        answer: Any = None,
        correct: bool = False,
    ) -> Document:
        """Record whether an effect in doubt happened; return the effect.

        Args:
            chunk: The number of its chunk.
            key: The effect's key, or the beginning of the key.
            reason: Where the outcome was checked; kept in the record.
            happened: Whether the other system executed the effect.
            answer: The value that the call returned, as JSON has it.
            correct: Replace an earlier resolution while the chunk is at its stage.

        Raises:
            NotFoundError: `job.chunk.not_found`, `job.effect.not_found`.
            UsageError: `job.effect.not_resolved`, `job.effect.answer_invalid`,
                `cli.reason.missing`.
        """
        await self._record()
        text = json.dumps(answer) if happened else None
        request = ResolutionRequest(key, text, self.actor, reason, correct)
        return await resolve(self.rt, self.ref.chunk(chunk), request)

    # ── questions ─────────────────────────────────────────────────────────────

    async def questions(self) -> AsyncIterator[Document]:
        """Yield the open questions of the job, by their next step."""
        async for document in open_questions(self.rt, self.id):
            yield document

    async def question(self, chunk: int, question: str = "") -> Document:
        """Return a question of a chunk: the named one, the open one, or the last one.

        Raises:
            NotFoundError: `job.chunk.not_found`, `approval.question.not_found`.
        """
        await self._record()
        return await chunk_question(self.rt, self.ref.chunk(chunk), question)

    async def answer(
        self,
        chunk: int,
        value: Any,
        reason: str,
        *,
        question: str = "",
        asked_at: str = "",
    ) -> Document:
        """Answer the open question of a chunk, and return it; its stage goes on.

        Args:
            chunk: The number of its chunk.
            value: An instance of the question's model, or a JSON value.
            reason: Kept in the record with the name of the actor.
            question: The name of the question; default: the open one.
            asked_at: When the question was asked that the person saw; a question that
                was asked again since is not answered. Default: whenever that was.

        Raises:
            NotFoundError: `job.chunk.not_found`, `approval.question.not_found`.
            UsageError: `approval.question.answered`: another answer counts;
                `approval.question.timed_out`: its time is over;
                `approval.question.asked_again`; `approval.question.left`: the chunk
                does not wait for it; `approval.answer.invalid`,
                `cli.reason.missing`.
        """
        await self._record()
        request = AnswerRequest(value, self.actor, reason, question, asked_at)
        return await answer(self.rt, self.ref.chunk(chunk), request)

    async def _record(self) -> Job:
        return await require_job(self.rt, self.id)

    async def _item(self, ended: EndedChunk) -> Done[R] | Failed:
        chunk = ended.chunk
        number, label = chunk.ref.chunk, chunk.label
        if ended.succeeded:
            text = await result_json(self.rt, ended)
            value = values.decode(self._result_function(), text)
            return Done(number, label, value, ended.code_version)
        error = ChunkError(ended.error_code)
        if chunk.status is ChunkStatus.DEAD:
            letter = await dead_letters_of(self.rt).read(chunk.ref, chunk.gen, [])
            if letter is not None:
                error = ChunkError(letter.error_code, letter.error, letter.stage)
        status = str(chunk.status)
        return Failed(number, label, status, error, ended.code_version)

    def _result_function(self) -> Any:
        if self.pipeline is None:
            return any_json
        stages: list[Stage] = list(self.pipeline.stages)
        return stages[self.pipeline.result_index].run


def any_json() -> Any:
    """Stand for the result function of a pipeline that the program does not have."""
