"""Run a pipeline in memory: no AWS, no sleeping, the same engine."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random
from types import MappingProxyType
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from piecework.calls.admission import Admission
from piecework.calls.attempts import Attempts
from piecework.calls.call import Call
from piecework.calls.caller import Caller
from piecework.calls.equal_calls import EqualCalls
from piecework.calls.usage import AnswerSource, UsageReporter
from piecework.context import Context, Results
from piecework.declared import PipelineFunction, as_pipeline
from piecework.dependency import Usage
from piecework.domain import keys, values
from piecework.domain.map_rows import MapRows
from piecework.domain.moments import moment
from piecework.domain.order_key import read_order_key
from piecework.domain.outcome import (
    STOPPED_CODE,
    Asking,
    Batching,
    Cancelled,
    DeadLettered,
    Deferred,
    Mapped,
    Outcome,
    Retry,
    Sleeping,
    Succeeded,
)
from piecework.domain.payload import encode_payload, read_payload
from piecework.domain.protocols import (
    ChildEnd,
    MissingChunk,
    RowFailure,
    StoredResult,
    WaitRequestedError,
)
from piecework.idempotency.stores import MemoryIdempotency
from piecework.pipelines import JOIN, Pipeline, Stage
from piecework.resilience.retry import RetryTime
from piecework.saga import engine
from piecework.saga.recovery import RecoveryLimits
from piecework.saga.stage import run_variant
from piecework.telemetry.emit import quiet_log
from piecework.testing.faults import ChunkFaults, Fault, never_happened
from piecework.testing.memory_records import (
    Answers,
    MemoryCheckpoints,
    MemoryChildren,
    MemoryChildResults,
    MemoryJobResults,
    MemoryJournal,
    MemoryQuestions,
)

T = TypeVar("T")


@dataclass(slots=True)
class MemoryRun:
    """The results of a run in memory.

    Attributes:
        results: The result of each chunk that has one.
        outcomes: How each chunk ended.
        join_value: What the join returned; None without a join.
        artifacts: What the join wrote.
        sent: The idempotency key of each execution of a called function, by its name.
        paid: The dependency and the usage of each call that was answered.
    """

    results: dict[int, Any] = field(default_factory=dict)
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    join_value: Any = None
    artifacts: dict[str, bytes] = field(default_factory=dict)
    sent: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    paid: list[tuple[str, Usage]] = field(default_factory=list)

    def calls(self, function: str) -> int:
        """Return how often a function was executed, retries included."""
        return len(self.sent[function])

    def effects(self, function: str) -> int:
        """Return how many operations a provider that honours the key has executed."""
        return len(set(self.sent[function]))

    def note_usage(self, call: Call, answered: AnswerSource, usage: Usage) -> None:
        """Keep the usage of an answer that was paid for."""
        if answered in {"paid", "found"}:
            self.paid.append((call.dependency.name, usage))


async def run_in_memory(
    pipeline: Pipeline | PipelineFunction,
    payloads: Sequence[BaseModel],
    *,
    max_attempts: int = 3,
    seed: int = 0,
    now: float = 1_700_000_000.0,
    faults: Sequence[Fault] = (),
    answers: Answers = MappingProxyType({}),
    allow_unstable_keys: bool = False,
) -> MemoryRun:
    """Run every payload through the pipeline, then the join; waits cost no time.

    `answers`: what people answer, by the name of the question: a value, or a function
    of what the stage asks. The time of a question without an answer ends.

    Isolated stages run in this process, too, and know no memory limit. Each chunk has
    each of the faults, and so has the join. A chunk without a result stops its order
    key: the later chunks of the key are cancelled.

    `allow_unstable_keys`: whether a repeated stage may call with other arguments than
    before, such as those of `ctx.attempt`, and so pay again.

    Raises:
        UsageError: As of a submit: `input.payload.invalid`, `input.payload.too_large`.
            `call.key.unstable`: a repeated stage has asked for none of the stored
            answers of a function, and has called it again with other arguments.
        AssertionError: A fault happened nowhere; its name may be misspelt.
        Exception: The join raised it.
    """
    limits = RecoveryLimits(max_attempts, lambda: now, Random(seed))
    operations = MemoryIdempotency(clock=limits.clock)
    parts = (limits, faults, answers, operations, allow_unstable_keys)
    job = MemoryJob(as_pipeline(pipeline), MemoryRun(), *parts)
    await job.run_all([(payload, "") for payload in payloads])
    if never := [fault for fault in faults if fault not in job.happened]:
        raise AssertionError(never_happened(never))
    return job.run


@dataclass(slots=True)
class MemoryJob:
    """One job of a run in memory: the one that was asked for, or a child.

    Attributes:
        lineage: The pipelines above it, that of the job that was asked for first.
        happened: The faults that happened in its chunks and those of its children.
    """

    pipeline: Pipeline
    run: MemoryRun
    limits: RecoveryLimits
    faults: Sequence[Fault]
    answers: Answers
    operations: MemoryIdempotency
    allow_unstable_keys: bool
    name: str = "memory"
    lineage: Sequence[str] = ()
    happened: set[Fault] = field(default_factory=set)
    stored: list[StoredResult] = field(default_factory=list)
    missing: list[RowFailure] = field(default_factory=list)

    async def run_all(self, given: Sequence[tuple[BaseModel, str]]) -> None:
        """Run payloads, each with its label if it is known, then the join."""
        pipeline, stopped = self.pipeline, set[str]()
        for number, (payload, label) in enumerate(given):
            written = encode_payload(pipeline.payload, payload, f"payload {number}")
            read = read_payload(pipeline.payload, written)
            shown = pipeline.label(read) if pipeline.label else label
            key = read_order_key(pipeline.ordered_by, read, f"payload {number}")
            if key in stopped:
                self.run.outcomes[number] = Cancelled(pipeline.stages[0].name)
                lost = RowFailure(number, shown, "CANCELLED", STOPPED_CODE, "")
                self.missing.append(lost)
            elif not await self.run_one(number, shown, read):
                stopped |= {key} - {""}
        await self.run_join()

    async def run_one(self, number: int, label: str, payload: BaseModel) -> bool:
        """Run one chunk to its end; return whether it has a result."""
        chunk, stages = self.chunk_of(number), self.pipeline.stages
        outcome, checkpoints = await chunk.run(payload)
        self.happened |= chunk.faults.happened.keys()
        self.run.outcomes[number] = outcome
        if not isinstance(outcome, Succeeded):
            self.missing.append(_missing(number, label, outcome))
            return False
        stage = stages[self.pipeline.result_index]
        text = {**checkpoints.completed, stages[-1].name: outcome.value}[stage.name]
        self.stored.append(StoredResult(number, label, text))
        self.run.results[number] = values.decode(stage.run, text)
        return True

    async def run_join(self) -> None:
        """Run the join, if the pipeline has one."""
        function: Callable[..., Any] | None = self.pipeline.join
        if function is None:
            return
        chunk, join = self.chunk_of(keys.JOIN_CHUNK), Stage(function, name=JOIN)
        missing = [
            MissingChunk(each.row, each.label, each.status, each.code)
            for each in self.missing
        ]
        results = MemoryJobResults(self.stored, missing, self.run.artifacts)
        value = await chunk.join(join, results)
        self.happened |= chunk.faults.happened.keys()
        self.run.join_value = values.decode(function, value)

    def chunk_of(self, number: int) -> MemoryChunk:
        """Return a chunk that has not run yet."""
        known = ChunkFaults(self.faults), MemoryQuestions(self.answers), self.operations
        children = MemoryChildren(self.run_child, self.pipeline.name, self.lineage)
        whole = (self.limits, self.run, *known, children, self.allow_unstable_keys)
        return MemoryChunk(self.pipeline, self.name, number, *whole)

    async def run_child(self, name: str, rows: MapRows) -> ChildEnd:
        """Run the rows of a child; its calls count as those of the whole run."""
        run = MemoryRun(sent=self.run.sent, paid=self.run.paid)
        child = replace(
            self,
            pipeline=cast("Pipeline", rows.pipeline),
            run=run,
            name=name,
            lineage=[*self.lineage, self.pipeline.name],
            stored=[],
            missing=[],
        )
        model = rows.pipeline.payload
        given = [
            (read_payload(model, row.payload), row.label) async for row in rows.inputs()
        ]
        await child.run_all(given)
        status = "FAILED" if not child.stored else "PARTIAL"
        status = status if child.missing else "SUCCEEDED"
        results = MemoryChildResults(child.stored, child.missing)
        return ChildEnd(status, len(child.stored), results)


@dataclass(slots=True)
class MemoryChunk:
    """One chunk of a run in memory, over all its attempts."""

    pipeline: Pipeline
    job: str
    number: int
    limits: RecoveryLimits
    whole: MemoryRun
    faults: ChunkFaults
    questions: MemoryQuestions
    operations: MemoryIdempotency
    children: MemoryChildren
    allow_unstable_keys: bool = False
    #: The seconds that its stages slept: no time passes in a run in memory.
    slept_s: float = 0.0

    def clock(self) -> float:
        """Return the time of this chunk."""
        return self.limits.clock() + self.slept_s

    async def run(self, payload: BaseModel) -> tuple[Outcome, MemoryCheckpoints]:
        """Run attempts until the chunk ends; return its outcome and checkpoints."""
        names = [stage.name for stage in self.pipeline.stages]
        checkpoints, journal = MemoryCheckpoints(names, self.faults), MemoryJournal()
        attempt, limits = 1, replace(self.limits, clock=self.clock)
        while True:
            checkpoints.reached_stage = checkpoints.cursor
            ctx = Context(payload=payload, attempt=attempt, **self.facts(journal))
            ctx.caller.keys_watch = journal.watch(checkpoints.completed)
            work = engine.run(self.pipeline, ctx, checkpoints, limits)
            outcome, last = await self.live(work), names[-1]
            self.require_stable(ctx)
            ended = isinstance(outcome, Succeeded)
            if outcome is None or (ended and self.faults.due("after stage", last)):
                continue
            open_ = isinstance(outcome, Retry | Deferred)
            if not open_ or attempt == self.limits.max_attempts:
                return outcome, checkpoints
            attempt += 1

    async def join(self, join: Stage, job_results: MemoryJobResults) -> str:
        """Run the join until it ends; return its value as JSON.

        Raises:
            Exception: The join raised it: no attempt follows, so that a test sees it.
        """
        journal = MemoryJournal()
        while True:
            facts = self.facts(journal)
            ctx: Results[Any] = Results(
                payload=None,
                attempt=1,
                stage=JOIN,
                job_results=job_results,
                result_of=self.pipeline.stages[self.pipeline.result_index].run,
                **facts,
            )
            ctx.caller.keys_watch = journal.watch([])
            value = await self.live(run_variant(join, ctx))
            self.require_stable(ctx)
            if value is not None and not self.faults.due("after stage", JOIN):
                return value

    def require_stable(self, ctx: Context[Any]) -> None:
        """Require that an attempt has asked for what earlier ones have paid for.

        Raises:
            UsageError: `call.key.unstable`.
        """
        found = ctx.caller.keys_watch.found
        if found is not None and not self.allow_unstable_keys:
            raise found.error

    def facts(self, journal: MemoryJournal) -> dict[str, Any]:
        """Return what the context of each attempt has."""
        return {
            "pipeline": self.pipeline.name,
            "stages": self.pipeline.names,
            "tenant": "memory",
            "job": self.job,
            "chunk": self.number,
            "caller": _caller(journal, self),
            "log": quiet_log(),
        }

    async def live(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the end of an attempt; None: a wait, or a kill of its worker."""
        worker = asyncio.create_task(work)
        self.faults.worker = worker
        try:
            end: T | Sleeping | Asking | Mapped = await worker
        except WaitRequestedError as request:
            # No other version claims a chunk, and no batch answers here.
            if isinstance(request.wait, Deferred | Batching):
                raise
            end = request.wait
        except asyncio.CancelledError:
            if not self.faults.killed:
                worker.cancel()
                raise
            self.faults.killed = False
            return None
        if isinstance(end, Mapped):
            await self.children.run(end.child.job)
            return None
        if isinstance(end, Sleeping | Asking):
            self.wait(end)
            return None
        return end

    def wait(self, wait: Sleeping | Asking) -> None:
        """Let the time of a sleep pass, or that of a question without an answer."""
        if isinstance(wait, Sleeping):
            self.slept_s = wait.until - self.limits.clock()
        elif not self.questions.ask(wait.question):
            self.slept_s = moment(wait.question.until) - self.limits.clock()

    @asynccontextmanager
    async def execution(self, call: Call, key: str) -> AsyncIterator[None]:
        """Count an execution of a called function, with the faults of this chunk."""
        name = call.bound.func.__name__
        fault = self.faults.due("before call", name)
        if fault is not None and fault.error is not None:
            raise fault.error
        self.whole.sent[name].append(key)
        yield
        await self.faults.kill_if_due("in call", name)


def _caller(journal: MemoryJournal, chunk: MemoryChunk) -> Caller:
    async def at_once(_: float) -> None:
        await asyncio.sleep(0)

    attempts = Attempts(
        retry_time=RetryTime(60.0),
        admission=Admission(asyncio.Semaphore(64), chunk.clock),
        rng=chunk.limits.rng,
        clock=chunk.clock,
        log=quiet_log(),
        sleep=at_once,
        usage=UsageReporter(chunk.whole.note_usage),
        execution=chunk.execution,
    )
    return Caller(
        journal=journal,
        ledger=journal,
        gen=1,
        attempts=attempts,
        equal_calls=EqualCalls(attempts, chunk.operations),
        questions=chunk.questions,
        children=chunk.children,
    )


def _missing(chunk: int, label: str, outcome: Outcome) -> RowFailure:
    match outcome:
        case DeadLettered(failure):
            return RowFailure(chunk, label, "DEAD", failure.code, failure.message)
        case Retry(failure) | Deferred(failure):
            return RowFailure(chunk, label, "WAITING", failure.code, failure.message)
        case _:
            return RowFailure(chunk, label, "CANCELLED", "", "")
