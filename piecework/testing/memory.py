"""Run a pipeline in memory: no AWS, no sleeping, the same engine."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random
from types import MappingProxyType
from typing import Any, TypeAlias

from pydantic import BaseModel

from piecework.answers import encode_answer
from piecework.calls.attempts import Attempts, plain_execution
from piecework.calls.call import Call
from piecework.calls.caller import Caller
from piecework.calls.equal_calls import EqualCalls
from piecework.calls.usage import AnswerSource, UsageReporter
from piecework.context import Context, Results
from piecework.declared import PipelineFunction, as_pipeline
from piecework.dependency import Usage
from piecework.domain import keys, values
from piecework.domain.model import Effect, moment
from piecework.domain.order_key import read_order_key
from piecework.domain.outcome import (
    STOPPED_CODE,
    Asking,
    Cancelled,
    DeadLettered,
    Deferred,
    Outcome,
    Retry,
    Sleeping,
    Succeeded,
)
from piecework.domain.protocols import (
    AlreadyDone,
    MissingChunk,
    NoQuestions,
    Proceed,
    StoredResult,
    Unknown,
)
from piecework.domain.question import Question, QuestionRow, QuestionState
from piecework.errors import ErrorEnvelope
from piecework.idempotency.stores import MemoryIdempotency
from piecework.pipelines import JOIN, Pipeline
from piecework.resilience.retry import RetryTime
from piecework.saga import engine
from piecework.saga.recovery import RecoveryLimits
from piecework.saga.stage import invoke
from piecework.telemetry.emit import quiet_log
from piecework.testing.faults import ChunkFaults, Fault, never_happened


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
        if answered == "paid":
            self.paid.append((call.dependency.name, usage))


@dataclass(slots=True)
class MemoryCheckpoints:
    """A chunk's progress, kept over its attempts."""

    names: Sequence[str]
    faults: ChunkFaults = field(default_factory=ChunkFaults)
    completed: dict[str, str] = field(default_factory=dict)
    compensated: dict[str, ErrorEnvelope | None] = field(default_factory=dict)
    failure: ErrorEnvelope | None = None
    reached_stage: str = ""
    cursor: str = ""
    compensation_gen: int = 1

    async def complete(self, index: int, value: str, following: str) -> None:
        """Keep a stage's value and enter the following stage."""
        await self.faults.kill_if_due("after stage", self.names[index])
        self.completed[self.names[index]] = value
        self.cursor = following

    async def begin_compensation(self, failure: ErrorEnvelope, stage: str) -> None:
        """Keep why the chunk is compensating."""
        self.failure = failure
        self.cursor = stage

    async def record_compensation(
        self, stage: str, failure: ErrorEnvelope | None
    ) -> None:
        """Keep that a stage was compensated."""
        self.compensated[stage] = failure


@dataclass(slots=True)
class MemoryJournal:
    """The remembered calls and effects of a chunk."""

    calls: dict[str, str] = field(default_factory=dict)
    effects: dict[str, str | None] = field(default_factory=dict)
    stages: dict[str, str] = field(default_factory=dict)

    def recall(self, key: str) -> str | None:
        """Return a remembered result."""
        return self.calls.get(key)

    async def record(self, key: str, value: str) -> None:
        """Remember a result."""
        self.calls[key] = value

    async def begin(
        self, key: str, stage: str, effect: Effect, max_duration_s: float
    ) -> Proceed | AlreadyDone | Unknown:
        """Write an intent, or return the state of an earlier one."""
        del max_duration_s
        known = self.effects.get(key)
        if known is not None:
            return AlreadyDone(known)
        in_doubt = key in self.effects
        if in_doubt and effect is Effect.NON_IDEMPOTENT:
            return Unknown()
        self.effects[key], self.stages[key] = None, stage
        return Proceed(epoch=1, in_doubt=in_doubt)

    def stages_with_effects(self) -> set[str]:
        """Return the stages that have effects."""
        return {self.stages[key] for key in self.effects}

    def may_have_happened(self, key: str) -> bool:
        """Return whether an effect happened, or may have happened."""
        return key in self.effects

    async def finish(self, key: str, value: str) -> None:
        """Record an effect's answer."""
        self.effects[key] = value

    async def mark_refused(self, key: str) -> None:
        """Forget an intent that came to nothing."""
        self.effects.pop(key, None)

    async def mark_unknown(self, key: str, schema: str) -> None:
        """Keep the intent: it shows that the effect is in doubt."""


#: The answers of a run by the names of its questions: each is a value, or a function of
#: what the stage asks. Without one, or with None, the time of the question ends.
Answers: TypeAlias = Mapping[str, Any]


@dataclass(slots=True)
class MemoryQuestions:
    """The questions of a chunk, and the answers of the test."""

    answers: Answers
    rows: dict[tuple[str, str], QuestionRow] = field(default_factory=dict)

    def recall(self, stage: str, question: str) -> QuestionRow | None:
        """Return a question that was asked."""
        return self.rows.get((stage, question))

    async def close(self, row: QuestionRow) -> QuestionRow:
        """End a question without an answer."""
        over = QuestionState.EXPIRED
        state = QuestionState.DEFAULTED if row.has_default else over
        return self._keep(row, state=state)

    def ask(self, question: Question) -> bool:
        """Ask; return whether the test has an answer."""
        row = self._keep(QuestionRow({**(question.facts or {}), "gen": 1}))
        value = self.answers.get(row.name.partition("#")[0])
        if callable(value):
            value = value(json.loads(row.ask))
        if value is None:
            return False
        answer = encode_answer(row.model, row.schema, value)
        self._keep(row, state=QuestionState.ANSWERED, answer=answer)
        return True

    def _keep(self, row: QuestionRow, **facts: Any) -> QuestionRow:
        found = QuestionRow({**row.item, **facts})
        self.rows[found.stage, found.name] = found
        return found


@dataclass(slots=True)
class MemoryJobResults:
    """The results of a run, for its join."""

    stored: list[StoredResult]
    missing: list[MissingChunk]
    artifacts: dict[str, bytes]

    async def results(self) -> AsyncIterator[StoredResult]:
        """Yield each result."""
        for result in self.stored:
            yield result

    async def write(self, name: str, content: bytes, media_type: str) -> str:
        """Keep an artifact."""
        del media_type
        self.artifacts[name] = content
        return name


async def run_in_memory(
    pipeline: Pipeline | PipelineFunction,
    payloads: Sequence[BaseModel],
    *,
    max_attempts: int = 3,
    seed: int = 0,
    now: float = 1_700_000_000.0,
    faults: Sequence[Fault] = (),
    answers: Answers = MappingProxyType({}),
) -> MemoryRun:
    """Run every payload through the pipeline, then the join; waits cost no time.

    `answers`: what people answer, by the name of the question: a value, or a function
    of what the stage asks. The time of a question without an answer ends.

    Isolated stages run in this process, too, and know no memory limit. Each chunk has
    each of the faults. A chunk without a result stops its order key: the later chunks
    of the key are cancelled.

    Raises:
        AssertionError: A fault happened in no chunk; its name may be misspelt.
    """
    pipeline = as_pipeline(pipeline)
    run, rng = MemoryRun(), Random(seed)
    limits = RecoveryLimits(max_attempts, lambda: now, rng)
    operations = MemoryIdempotency(clock=limits.clock)
    stored, missing = [], []
    happened, stopped = set[Fault](), set[str]()
    for number, payload in enumerate(payloads):
        label = pipeline.label(payload) if pipeline.label else ""
        key = read_order_key(pipeline.ordered_by, payload, f"payload {number}")
        if key in stopped:
            run.outcomes[number] = Cancelled(pipeline.stages[0].name)
            missing.append(MissingChunk(number, label, "CANCELLED", STOPPED_CODE))
            continue
        questions = MemoryQuestions(answers)
        known = ChunkFaults(faults), questions, operations
        chunk = MemoryChunk(pipeline, number, limits, run, *known)
        outcome, checkpoints = await chunk.run(payload)
        happened |= chunk.faults.happened.keys()
        run.outcomes[number] = outcome
        if isinstance(outcome, Succeeded):
            stage = pipeline.stages[pipeline.result_index]
            text = {**checkpoints.completed, pipeline.stages[-1].name: outcome.value}
            stored.append(StoredResult(number, label, text[stage.name]))
            run.results[number] = values.decode(stage.run, text[stage.name])
        else:
            missing.append(_missing(number, label, outcome))
            stopped |= {key} - {""}
    if never := [fault for fault in faults if fault not in happened]:
        raise AssertionError(never_happened(never))
    if pipeline.join is not None:
        ctx = _join_context(
            pipeline, MemoryJobResults(stored, missing, run.artifacts), limits
        )
        value = await invoke(pipeline.join, ctx)
        run.join_value = values.decode(
            pipeline.join, values.encode(pipeline.join, value)
        )
    return run


@dataclass(slots=True)
class MemoryChunk:
    """One chunk of a run in memory, over all its attempts."""

    pipeline: Pipeline
    number: int
    limits: RecoveryLimits
    whole: MemoryRun
    faults: ChunkFaults
    questions: MemoryQuestions
    operations: MemoryIdempotency
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
            ctx = Context(
                payload=payload,
                pipeline=self.pipeline,
                tenant="memory",
                job="memory",
                chunk=self.number,
                attempt=attempt,
                caller=_caller(journal, limits, self),
                log=quiet_log(),
            )
            work = engine.run(self.pipeline, ctx, checkpoints, limits)
            self.faults.worker = asyncio.create_task(work)
            outcome = await self.end_of(self.faults.worker)
            if isinstance(outcome, Succeeded) and self.killed_at_end():
                outcome = None
            if isinstance(outcome, Sleeping):
                self.slept_s = outcome.until - self.limits.clock()
            if isinstance(outcome, Asking) and not self.questions.ask(outcome.question):
                self.slept_s = moment(outcome.question.until) - self.limits.clock()
            if outcome is None or isinstance(outcome, Sleeping | Asking):
                continue
            open_ = isinstance(outcome, Retry | Deferred)
            if not open_ or attempt == self.limits.max_attempts:
                return outcome, checkpoints
            attempt += 1

    def killed_at_end(self) -> bool:
        """Return whether the worker is killed before it stores the last value."""
        return self.faults.due("after stage", self.pipeline.stages[-1].name) is not None

    async def end_of(self, work: asyncio.Task[Outcome]) -> Outcome | None:
        """Return the outcome of an attempt; None: its worker was killed."""
        try:
            return await work
        except asyncio.CancelledError:
            if not self.faults.killed:
                work.cancel()
                raise
            self.faults.killed = False
            return None

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


def _join_context(
    pipeline: Pipeline, job_results: MemoryJobResults, limits: RecoveryLimits
) -> Results:
    return Results(
        payload=None,
        pipeline=pipeline,
        tenant="memory",
        job="memory",
        chunk=keys.JOIN_CHUNK,
        attempt=1,
        caller=_caller(MemoryJournal(), limits, None),
        log=quiet_log(),
        stage=JOIN,
        job_results=job_results,
    )


def _caller(
    journal: MemoryJournal, limits: RecoveryLimits, chunk: MemoryChunk | None
) -> Caller:
    async def at_once(_: float) -> None:
        await asyncio.sleep(0)

    attempts = Attempts(
        retry_time=RetryTime(60.0),
        slots=asyncio.Semaphore(64),
        rng=limits.rng,
        clock=limits.clock,
        log=quiet_log(),
        sleep=at_once,
        usage=UsageReporter(chunk.whole.note_usage) if chunk else UsageReporter(),
        execution=chunk.execution if chunk else plain_execution,
    )
    questions = chunk.questions if chunk else NoQuestions()
    store = chunk.operations if chunk else MemoryIdempotency(clock=limits.clock)
    return Caller(
        journal=journal,
        ledger=journal,
        gen=1,
        attempts=attempts,
        equal_calls=EqualCalls(attempts, store),
        questions=questions,
    )


def _missing(chunk: int, label: str, outcome: Outcome) -> MissingChunk:
    match outcome:
        case DeadLettered(failure):
            return MissingChunk(chunk, label, "DEAD", failure.code)
        case Retry(failure) | Deferred(failure):
            return MissingChunk(chunk, label, "WAITING", failure.code)
        case _:
            return MissingChunk(chunk, label, "CANCELLED", "")
