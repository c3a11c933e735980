"""The context of a stage: its payload, the earlier results, and its calls.

ctx.call = key -> stored? -> attempts (the first writes the intent) -> stored
"""

from __future__ import annotations

import copy
import threading
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, cast, overload

from typing_extensions import TypeVar

from piecework.answers import decode_answer
from piecework.calls.call import CallScope
from piecework.calls.caller import Caller
from piecework.calls.map_result import MapResult, NoRows
from piecework.dependency import (
    DeclaredCall,
    Dependency,
    FallbackUsed,
    needs_key,
    takes_key,
)
from piecework.domain import keys, values
from piecework.domain.arguments import digest_of
from piecework.domain.happened import (
    DIGEST_LENGTH,
    EffectEnd,
    Happened,
    KnownEffect,
    MayHaveHappened,
    NotHappened,
    Occurrence,
    Questions,
    describe_effects,
    which_acted,
)
from piecework.domain.identity import function_text, function_words, path_of, unfold
from piecework.domain.map_rows import RowFunction, RowPipeline, read_rows
from piecework.domain.moments import LAST_MOMENT
from piecework.domain.outcome import CHANGED_CODE
from piecework.domain.protocols import JobResults, MissingChunk
from piecework.errors import PermanentError, UsageError
from piecework.questions import Approval, Duration, Escalate, declare
from piecework.resilience.retry import answer_of

if TYPE_CHECKING:
    import structlog
    from pydantic import BaseModel

    from piecework.errors import ErrorEnvelope

P = TypeVar("P")
R = TypeVar("R")
V = TypeVar("V", default=Any)
A = TypeVar("A", bound="BaseModel", default=Approval)
#: The payload and the result of the pipeline that a stage maps.
Q = TypeVar("Q", bound="BaseModel", default=Any)
W = TypeVar("W", default=Any)


T = TypeVar("T")
#: Rows of either kind of iterable.
Rows: TypeAlias = Iterable[T] | AsyncIterable[T]
#: Runs a stage, with its context, in one of its variants; returns its value as JSON.
RunStage: TypeAlias = "Callable[[Any, Context[Any], str], Awaitable[str]]"


@dataclass(slots=True)
class Context(Generic[P]):
    """One chunk, as its stages see it.

    Attributes:
        payload: The chunk's payload, as the pipeline's payload model.
        pipeline: The name of the pipeline.
        stages: The names of its stages, by their functions, in order.
        tenant, job, chunk: The names of the chunk; `chunk` counts from 0.
        attempt: The number of this attempt of the chunk, from 1.
        log: A structlog logger with the ids bound.
        run_stage: Runs the stages; None: they run in this process.
        failure: The failure that led to this variant of the stage. A replan hook plans
            around it, and a fallback replaces the refused function. None: the stage
            runs its own function.
        effects: What the ledger knows, for `happened`; empty before a compensation.
        questions: What its compensation has asked for by `happened`.
        shared: The stages whose results a stage has read, and may have changed.
        closed: Whether the stage has ended; code that it left behind cannot call.
        current: The context that the present or last run of a stage received.
        thread: The thread of the event loop that makes the calls.
    """

    payload: P
    pipeline: str
    stages: Mapping[Callable[..., Any], str] = field(repr=False)
    tenant: str
    job: str
    chunk: int
    attempt: int
    caller: Caller
    log: structlog.stdlib.BoundLogger = field(repr=False)
    stage: str = ""
    values: dict[str, Any] = field(default_factory=dict, repr=False)
    run_stage: RunStage | None = field(default=None, repr=False)
    failure: ErrorEnvelope | None = None
    effects: Sequence[KnownEffect] = ()
    questions: Questions = field(default_factory=Questions, repr=False)
    shared: set[str] = field(default_factory=set, repr=False)
    closed: bool = field(default=False, repr=False)
    current: Self | None = field(default=None, repr=False)
    thread: int = field(default_factory=threading.get_ident, repr=False)

    def for_stage(self) -> Self:
        """Return the context for one run of a stage, with its own copy of the payload.

        The stage may change the payload. The next stage and the next claim still see it
        as it was submitted.
        """
        payload = copy.deepcopy(self.payload)
        self.current = replace(
            self, payload=payload, questions=Questions(), current=None
        )
        return self.current

    @overload
    def result(self, stage: Callable[[Context[Any]], Awaitable[R]]) -> R: ...
    @overload
    def result(self, stage: Callable[[Context[Any]], R]) -> R: ...
    def result(self, stage: Callable[[Context[Any]], Any]) -> Any:
        """Return the value of an earlier stage.

        Raises:
            UsageError: The stage is not in this pipeline, or has not run yet.
                `pipeline.stage.not_run`, in a compensation: the stage failed. The
                message says what its calls with an effect have become.
        """
        name = self.stages.get(stage)
        if name is None:
            function = getattr(stage, "__name__", repr(stage))
            message = f"{function} is not a stage of pipeline {self.pipeline!r}."
            raise UsageError(message, code="pipeline.declaration.invalid")
        if name not in self.values and keys.is_compensation_stage(self.stage):
            told = describe_effects(self.effects, name)
            message = f"Stage {name!r} did not complete, so it has no value. {told}"
            raise UsageError(message, code="pipeline.stage.not_run")
        if name not in self.values:
            message = f"Stage {self.stage!r} reads {name!r}, which has not run yet."
            raise UsageError(message, code="pipeline.declaration.invalid")
        self.shared.add(name)
        return self.values[name]

    def happened(
        self,
        function: Callable[..., Awaitable[R]],
        /,
        *args: Any,
        **kwargs: Any,
    ) -> Occurrence[R]:
        """Return whether a call of the stage that is compensated has happened.

        `function` is what the stage called: a declared call, or the function that it
        gave to `ctx.call`. With arguments only the call with these arguments counts.
        The answer of a fallback counts as the answer of the function.

        Raises:
            UsageError: `pipeline.happened.invalid`: no compensation asks, or several
                calls of the function happened and no arguments say which is meant.
            PermanentError: `runtime.value.unreadable`: the stored answer is damaged.
        """
        function, args, kwargs = unfold(function, args, kwargs)
        functions, name = [function], path_of(function)
        if isinstance(function, DeclaredCall):
            chain = function.dependency.fallback
            further = [each.function for each in chain if each.dependency]
            functions = [function.function, *further]
        stage = keys.compensated_stage(self.stage)
        if not stage:
            message = f"Stage {self.stage!r} asks whether {name} has happened."
            raise UsageError(message, code="pipeline.happened.invalid")
        texts = {function_text(each) for each in functions}
        given = bool(args or kwargs)
        arguments = digest_of(args, kwargs)[:DIGEST_LENGTH] if given else None
        found = which_acted(self.effects, stage, texts, arguments)
        self.questions.note(texts, found)
        if not found:
            return NotHappened()
        if len(found) > 1:
            message = f"{len(found)} calls of {name} in {stage!r} may have happened."
            raise UsageError(message, code="pipeline.happened.invalid")
        if found[0].end is EffectEnd.IN_DOUBT:
            return MayHaveHappened()
        if found[0].answer is None:
            message = f"The stored answer of {name} cannot be read."
            raise PermanentError(message, code="runtime.value.unreadable")
        return Happened(cast("R", values.decode(functions[0], found[0].answer)))

    def require_asked(self) -> None:
        """Require that a compensation has asked for what its stage did.

        Raises:
            PermanentError: `runtime.code.changed`: a question found nothing, and what
                another version did may be what it meant.
        """
        stage = keys.compensated_stage(self.stage)
        if left := self.questions.passed_over(self.effects, stage):
            asked = ", ".join(sorted(map(function_words, self.questions.missed)))
            did = ", ".join(sorted({function_words(each.function) for each in left}))
            raise PermanentError(
                f"The compensation of stage {stage!r} has asked whether {asked} "
                f"happened, and found nothing. It has not asked for what another "
                f"version did: {did}. That may be the same act.",
                code=CHANGED_CODE,
            )

    async def call(
        self,
        dependency: Dependency,
        function: Callable[..., Awaitable[R]],
        /,
        *args: Any,
        **kwargs: Any,
    ) -> R:
        """Call an outside service: remembered, retried, with an idempotency key.

        `function` receives `*args`, `**kwargs` and `idempotency_key=`. Two calls of a
        stage are the same if module and name of the function and the arguments are
        equal. `named_call` declares another name. Each attempt receives its own copy of
        the arguments, as they were when the call began.

        Raises:
            UsageError: `pipeline.call.indistinct`: a lambda, a function in a function
                or a method of an object; `pipeline.argument.indistinct`: an argument
                whose content cannot be seen, such as a generator;
                `pipeline.call.in_thread`. Nothing was sent.
            Exception: The error of the last attempt, when the retries are spent.
            PermanentError: `runtime.effect.unknown`: an effect of an earlier attempt
                may have happened, and its result is unknown.
            RuntimeError: The stage has ended, and code that it left behind calls.
        """
        function, args, kwargs = unfold(function, args, kwargs)
        if isinstance(function, DeclaredCall):
            name = function.function.__qualname__
            message = f"{name} is declared by `@dependency.call`: it makes the call."
            step = f"Write `await {name}(…)` without `ctx.call`."
            raise UsageError(
                message, code="pipeline.declaration.invalid", next_step=step
            )
        if needs_key(dependency) and not takes_key(function):
            message = f"{path_of(function)} does not take the idempotency key."
            step = 'Add the parameter `idempotency_key: str = ""`.'
            raise UsageError(
                message, code="pipeline.declaration.invalid", next_step=step
            )
        self._require_stage(path_of(function), "is called")
        call = self.caller.call(self.scope, dependency, function, args, kwargs)
        return cast("R", values.decode(function, answer_of(await call)))

    async def sleep(
        self,
        seconds: float = 0.0,
        *,
        minutes: float = 0.0,
        hours: float = 0.0,
        days: float = 0.0,
        name: str = "",
    ) -> None:
        """Wait without a worker, for seconds or for days; see `sleep_until`."""
        span = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        await self.sleep_until(self.caller.clock() + span, name=name)

    async def sleep_until(self, moment: datetime | float, *, name: str = "") -> None:
        """Wait until a moment without a worker, through restarts and deployments.

        The chunk gives up worker, message and lease; no attempt is spent. Then the
        stage runs again from its start: answered calls are replayed, and this sleep
        returns. Await the other calls of the stage first. A sleep of at most 2 s stays
        in the worker.

        Args:
            moment: A time with a zone, or seconds since 1970. The first run of the
                stage decides it.
            name: Tells the sleeps of a stage apart; the order tells those of one name.

        Raises:
            UsageError: `pipeline.sleep.invalid`: a compensation sleeps, or the moment
                has no zone, or a year after 9999; `pipeline.call.in_thread`.
            RuntimeError: The stage has ended, and code that it left behind sleeps.
        """
        self._require_wait("pipeline.sleep.invalid")
        if isinstance(moment, datetime):
            if moment.tzinfo is None:
                message = f"{moment} has no time zone: a sleep needs one."
                raise UsageError(message, code="pipeline.sleep.invalid")
            moment = moment.timestamp()
        if not moment <= LAST_MOMENT:
            message = f"{moment:g} is not a moment in seconds before the year 10000."
            raise UsageError(message, code="pipeline.sleep.invalid")
        await self.caller.sleep_until(self.scope, moment, name)

    async def wait_for(
        self,
        name: str,
        *,
        ask: Any,
        timeout: Duration,  # noqa: ASYNC109 -- of a person, not of this process
        answer: type[A] = Approval,  # type: ignore[assignment]
        remind: Sequence[Duration] = (),
        escalate: Escalate | Sequence[Escalate] = (),
        default: A | None = None,
    ) -> A:
        """Ask a person and wait for the answer without a worker, for days.

        The chunk gives up worker, message and lease; no attempt is spent. When the
        question is answered, or its time is over, the stage runs again from its start.
        Answered calls are replayed then, and this method returns the answer.

        Args:
            name: The name of the question; two of one name in a stage are told apart
                by their order.
            ask: What the person reads: a text, or any JSON value or model.
            timeout: Seconds or a `timedelta`, after which the question ends.
            answer: The model of the answer; by default yes or no.
            remind: The times after the asking at which a reminder is sent.
            escalate: The times after it at which another receiver is told.
            default: The answer when the time is over; without it the stage fails.

        Raises:
            AnswerTimeoutError: `runtime.wait.timed_out`: its time is over. It is a
                `WaitTimeoutError` and a `PermanentError`.
            PermanentError: `runtime.answer.invalid`: the model refuses the stored
                answer. A redrive asks again.
            UsageError: `pipeline.wait.invalid`; `pipeline.call.in_thread`.
            RuntimeError: The stage has ended, and code that it left behind asks.
        """
        self._require_wait("pipeline.wait.invalid")
        question = declare(name, ask, answer, timeout, remind, escalate, default)
        text = await self.caller.wait_for(self.scope, question)
        return cast("A", decode_answer(answer, text, name))

    @overload
    async def map(
        self, pipeline: RowFunction[Q, W], rows: Rows[Q | Mapping[str, Any]]
    ) -> MapResult[W]: ...
    @overload
    async def map(
        self, pipeline: RowPipeline[Q], rows: Rows[Q | Mapping[str, Any]]
    ) -> MapResult[Any]: ...
    async def map(self, pipeline: Any, rows: Rows[Any]) -> MapResult[Any]:
        """Run rows through another pipeline, as a child job, without a worker.

        The chunk gives up worker, message and lease; no attempt is spent. When the
        child has ended, the stage runs again from its start. Answered calls are
        replayed then, and this method returns what the rows have become. The same
        pipeline and rows find the same child again, so nothing is paid twice.

        The child has the priority, the deadline and the budget of this job. A cancel
        and a pause of this job reach it.

        Args:
            pipeline: The pipeline of the child; workers must have it, too.
            rows: Its payloads, or mappings of their fields. Without a row there is no
                child, and the result is empty.

        Raises:
            PermanentError: `runtime.map.over_budget`: the budget has no room for it;
                `runtime.map.child_gone`: it was deleted.
            UsageError: `pipeline.map.invalid`: a compensation or a join maps, or code
                that no worker runs; `pipeline.map.unknown`: this worker does not have
                the pipeline; `pipeline.map.cycle`, `pipeline.map.too_deep`;
                `pipeline.call.in_thread`; those of rows, as a submit raises them.
            RuntimeError: The stage has ended, and code that it left behind maps.
        """
        self._require_wait("pipeline.map.invalid")
        if self.chunk == keys.JOIN_CHUNK:
            message = f"The join of pipeline {self.pipeline!r} maps: it must not."
            raise UsageError(message, code="pipeline.map.invalid")
        declared: RowPipeline[Any] = getattr(pipeline, "declared", pipeline)
        if not hasattr(declared, "stages"):
            message = f"{pipeline!r} is not a pipeline."
            step = "Pass the `Pipeline` itself, or the function with `@pipeline`."
            code = "pipeline.object.not_a_pipeline"
            raise UsageError(message, code=code, next_step=step)
        note = self.caller.note_read
        result_of = declared.stages[declared.result_index].run
        found = await read_rows(declared, rows)
        try:
            if not found.count:
                return MapResult("", "SUCCEEDED", 0, 0, NoRows(), result_of, note)
            job, end = await self.caller.map(self.scope, found)
        finally:
            found.close()
        counts = (str(end.status), found.count, end.succeeded)
        return MapResult(job, *counts, end.stored, result_of, note)

    def _require_wait(self, code: str) -> None:
        """Require that the stage may wait.

        Raises:
            UsageError: `code`: a compensation waits; `pipeline.call.in_thread`.
            RuntimeError: The stage has ended.
        """
        self._require_stage("A wait", "begins")
        if keys.is_compensation_stage(self.stage):
            message = f"The compensation {self.stage!r} waits: it must not."
            raise UsageError(message, code=code)

    def _require_stage(self, what: str, begins: str) -> None:
        """Require that the stage runs, and that its event loop makes the call.

        Another thread has a loop of its own, which no answer would reach.

        Raises:
            UsageError: `pipeline.call.in_thread`.
            RuntimeError: The stage has ended.
        """
        if self.closed:
            message = f"{what} {begins} after the end of its stage."
            raise RuntimeError(message)
        if threading.get_ident() != self.thread:
            message = f"{what} {begins} in a thread of the stage {self.stage!r}."
            raise UsageError(message, code="pipeline.call.in_thread")

    @property
    def scope(self) -> CallScope:
        """The chunk and the stage, as they are part of the keys of calls."""
        return CallScope(self.tenant, self.job, self.chunk, self.stage, self.pipeline)

    @property
    def fallbacks_used(self) -> tuple[FallbackUsed, ...]:
        """The calls of this stage so far that a fallback answered."""
        calls = self.caller.fallbacks_used.values()
        return tuple(call for call in calls if call.stage == self.stage)

    @property
    def sensitive_data(self) -> tuple[Any, ...]:
        """The data of the chunk, which must not appear in error messages."""
        changed = self.current.payload if self.current else None
        return self.payload, changed, self.values, list(self.caller.recent_io)

    def progress(self) -> None:
        """Report progress; without any for `stall_timeout_s` the stage is stopped."""
        self.caller.progress()


@dataclass(slots=True)
class ChunkResult(Generic[V]):
    """A chunk's result, typed by the annotation of the pipeline's result stage."""

    chunk: int
    label: str
    value: V


@dataclass(slots=True)
class Results(Context[None], Generic[V]):
    """What a join receives: the results of all chunks, and a context for its calls.

    Iterate it with `async for`: chunk by chunk, in order, one in memory at a time.

    Attributes:
        result_of: The function of the stage whose values are the results.
    """

    job_results: JobResults = field(kw_only=True, repr=False)
    result_of: Callable[..., Any] = field(kw_only=True, repr=False)

    async def __aiter__(self) -> AsyncIterator[ChunkResult[V]]:
        """Yield each succeeded chunk with number, label and value."""
        async for stored in self.job_results.results():
            value = values.decode(self.result_of, stored.value)
            self.caller.recent_io.append(stored.value)
            yield ChunkResult(stored.chunk, stored.label, value)
            self.progress()

    @property
    def missing(self) -> tuple[MissingChunk, ...]:
        """The chunks without a result, each with its status and error code."""
        return tuple(self.job_results.missing)

    async def write(
        self,
        name: str,
        content: str | bytes,
        media_type: str = "application/octet-stream",
    ) -> str:
        """Save an artifact of the job and return its location.

        Raises:
            UsageError: `pipeline.artifact.bad_name`: the name could be a path.
        """
        if not keys.is_file_name(name):
            message = (
                f"{name!r} is not a file name. Use letters, digits, '.', '-' and '_'."
            )
            raise UsageError(message, code="pipeline.artifact.bad_name")
        content = content.encode() if isinstance(content, str) else content
        return await self.job_results.write(name, content, media_type)
