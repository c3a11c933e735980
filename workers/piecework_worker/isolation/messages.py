"""The messages between a worker and its child: one stage and its calls.

    worker                                   child
    Run            ->
                   <-  Progress, any number of times
                   <-  Alive, while a stage runs
                   <-  Call                  a stage called `ctx.call`
    Attempt        ->                        run it, the intent is recorded
                   <-  AttemptResult
    CallResult     ->                        what `ctx.call` returns or raises
                   <-  StageResult

`CancelCall` and `CancelAttempt` are answered by a result, too. `CancelStage` ends the
stage but not its attempts: an effect is drained before its compensation. Values are
JSON within the messages, written by the side that knows their type.

All messages are in one file, because both processes import them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from piecework.dependency import Dependency, Fallback, Usage
from piecework.domain.effect import Effect
from piecework.domain.happened import KnownEffect
from piecework.domain.identity import function_text, path_of
from piecework.domain.kept_call import Keeps
from piecework.domain.question import Ask
from piecework.errors import (
    AnswerTimeoutError,
    ErrorEnvelope,
    PermanentError,
    PieceworkError,
    PolicyError,
    RemoteError,
    SemanticError,
    StateError,
    StoreError,
    TransientError,
)
from piecework.errors.classify import classify, mark, noted
from piecework.idempotency.strategies import KnownOperation
from piecework.resilience.breaker import CircuitBreaker
from piecework.resilience.lanes import DIRECT, Lane
from piecework.resilience.limits import Limits
from piecework.resilience.retry import RetryPolicy


@dataclass(frozen=True, slots=True)
class Ready:
    """The child has loaded its pipelines."""

    kind: Literal["ready"] = "ready"


@dataclass(frozen=True, slots=True)
class Run:
    """Run a stage, or its compensation.

    Attributes:
        variant: The name of the stage function to run, a key of `variants`.
        scope: The context's stage name; a compensation's contains its generation.
        values: The values of the earlier stages as JSON, by stage.
        memory_mb: Megabytes beyond the current size of the process; 0: no limit.
        failure: The failure that led to this variant.
        effects: What a compensation can ask for.
        clock_offset_s: Seconds that the worker's clock is ahead of the machine's.
        record_calls: Which calls the worker keeps, unless their dependency says it.
    """

    pipeline: str
    stage: str
    variant: str
    scope: str
    tenant: str
    job: str
    chunk: int
    attempt: int
    payload: str
    values: Mapping[str, str]
    memory_mb: int
    failure: ErrorEnvelope | None = None
    effects: Sequence[KnownEffect] = ()
    clock_offset_s: float = 0.0
    record_calls: Keeps = "failed"
    kind: Literal["run"] = "run"


#: Returns the operation of a dependency's call with a function; None: it is not shared.
OperationOf: TypeAlias = Callable[
    [Dependency, Callable[..., Any]], KnownOperation | None
]


def not_shared(dependency: Dependency, function: Callable[..., Any]) -> None:
    """Return that the calls are not shared."""
    del dependency, function


@dataclass(frozen=True, slots=True)
class DependencySpec:
    """A dependency without its functions, which stay in the child."""

    name: str
    retry: RetryPolicy
    effect: Effect
    layer: Literal["llm", "tool"]
    timeout: float | None
    fallback: Sequence[FallbackSpec] = ()
    fallback_codes: frozenset[str] = frozenset()
    breaker: CircuitBreaker | None = None
    cache_ttl_s: float | None = None
    key_ttl_s: float | None = None
    version: str = ""
    limits: Limits | None = None
    adaptive_rate: bool = False
    provider: str = ""
    model: str = ""
    by: KnownOperation | None = None
    has_usage: bool = False
    record_calls: Keeps | None = None
    lane: Lane = DIRECT

    @classmethod
    def of(
        cls,
        dependency: Dependency,
        function: Callable[..., Any] | None = None,
        operation_of: OperationOf = not_shared,
    ) -> DependencySpec:
        """Return the parts that can be sent.

        `operation_of`: returns the operation of a call that other chunks may make, too.
        """
        d = dependency
        chain = [FallbackSpec.of(each, operation_of) for each in d.fallback]
        return cls(
            *(d.name, d.retry, d.effect, d.layer, d.timeout, chain),
            fallback_codes=d.fallback_codes,
            breaker=d.breaker,
            cache_ttl_s=d.cache_ttl_s,
            key_ttl_s=d.key_ttl_s,
            version=d.version,
            limits=d.limits,
            adaptive_rate=d.adaptive_rate,
            provider=d.provider,
            model=d.model,
            by=None if function is None else operation_of(d, function),
            has_usage=d.usage is not None,
            record_calls=d.record_calls,
            lane=d.lane,
        )


@dataclass(frozen=True, slots=True)
class FallbackSpec:
    """A fallback without its functions; `spec` is None if it calls no dependency.

    Attributes:
        function: The qualified name, for messages and events.
        text: The text that stands for the function in keys; empty without a dependency.
    """

    spec: DependencySpec | None
    function: str
    text: str = ""

    @classmethod
    def of(
        cls, fallback: Fallback, operation_of: OperationOf = not_shared
    ) -> FallbackSpec:
        """Return the parts that can be sent."""
        dependency = fallback.dependency
        name = path_of(fallback.function)
        if dependency is None:
            return cls(None, name)
        text = function_text(fallback.function)
        spec = DependencySpec.of(dependency, fallback.function, operation_of)
        return cls(spec, name, text)


#: An answer that was refused, and where it does not fit and why.
RefusedAnswer: TypeAlias = tuple[str, list[dict[str, str]]]
#: Tokens and dollars of a call; None: the estimate failed, and the price is not known.
Estimate: TypeAlias = tuple[int | None, float | None]


@dataclass(frozen=True, slots=True)
class BatchedRow:
    """The row of a call in a batch, which the child can make and the worker asks for.

    Attributes:
        key: That of the model.
        body: The provider's request as JSON.
        size: The bytes that it adds to a batch.
        most_bytes: The most that a row may have.
    """

    key: str
    body: str
    size: int
    most_bytes: int


@dataclass(frozen=True, slots=True)
class Call:
    """The stage calls a dependency.

    Attributes:
        function: The qualified name, for messages and events.
        text: The text that stands for the function in keys.
        digest: The digest of the arguments.
        plain: The texts in the arguments, to redact them from error messages.
        estimates: What each member of the chain is estimated to use.
        rows: The row of each member in a batch; None: it has no batch lane.
        answer_schema: The JSON schema of the answer; empty: it has none.
        arguments: The arguments as JSON by their names, for people; empty: they are not
            kept.
    """

    call: int
    spec: DependencySpec
    function: str
    text: str
    digest: str
    plain: list[str]
    estimates: Sequence[Estimate] = ()
    rows: Sequence[BatchedRow | None] = ()
    answer_schema: str = ""
    arguments: str = ""
    kind: Literal["call"] = "call"


@dataclass(frozen=True, slots=True)
class Sleep:
    """The stage sleeps until a moment; the result comes if it has passed."""

    call: int
    until: float
    name: str
    kind: Literal["sleep"] = "sleep"


@dataclass(frozen=True, slots=True)
class AskPerson:
    """The stage asks a person; the result comes if the question has ended."""

    call: int
    ask: Ask
    kind: Literal["ask"] = "ask"


#: The label, the order key and the payload of a row.
Row: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class MapPart:
    """Some rows of a `ctx.map`, whose `MapEnd` follows."""

    call: int
    pipeline: str
    rows: list[Row]
    kind: Literal["map_part"] = "map_part"


@dataclass(frozen=True, slots=True)
class MapEnd:
    """The stage maps the rows of these parts; the result comes if the child has ended.

    `digest`: the hash of the rows.
    """

    call: int
    pipeline: str
    digest: str
    kind: Literal["map_end"] = "map_end"


@dataclass(frozen=True, slots=True)
class MapRead:
    """The stage reads what the rows have become; the result is a page of them.

    Attributes:
        of: The number of the `MapEnd`.
        reader: The number of the first `MapRead` of one reading, which has its place.
        failures: Whether it reads the rows without a result, or those with one.
    """

    call: int
    of: int
    reader: int
    failures: bool
    kind: Literal["map_read"] = "map_read"


@dataclass(frozen=True, slots=True)
class CancelCall:
    """The stage no longer waits for a call."""

    call: int
    kind: Literal["cancel_call"] = "cancel_call"


@dataclass(frozen=True, slots=True)
class Attempt:
    """Call the function of a call, or look up the result of an earlier attempt.

    Attributes:
        position: 0 for the call's own function, or a position of its fallback chain.
        lane: The lane that the attempt takes; None: it is a lookup, or has no lane.
    """

    call: int
    number: int
    key: str
    lookup: bool = False
    position: int = 0
    lane: Lane | None = None
    kind: Literal["attempt"] = "attempt"


@dataclass(frozen=True, slots=True)
class CancelAttempt:
    """Cancel an attempt."""

    number: int
    kind: Literal["cancel_attempt"] = "cancel_attempt"


@dataclass(frozen=True, slots=True)
class CancelStage:
    """Cancel the stage; its attempts in flight continue."""

    kind: Literal["cancel_stage"] = "cancel_stage"


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The result of an attempt; without value and failure, it was cancelled.

    Attributes:
        has_read_answer: The function has read the dependency's answer, then failed.
        usage: What the answer cost; None: it is not known.
        refused: The answer that the failure refuses, and the places that do not fit in
            it; None: it refuses none.
    """

    number: int
    value: str | None = None
    failure: ErrorEnvelope | None = None
    has_read_answer: bool = False
    usage: Usage | None = None
    refused: RefusedAnswer | None = None
    kind: Literal["attempt_result"] = "attempt_result"


@dataclass(frozen=True, slots=True)
class Fault:
    """An error that is sent to the child.

    Attributes:
        attempt: The attempt that raised it, if known: the child has the original.
        type: The name of its type.
    """

    type: str
    envelope: ErrorEnvelope
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call; without value and fault, it was cancelled.

    Attributes:
        answered_by: The fallback that answered; empty: the dependency itself.
    """

    call: int
    value: str | None = None
    fault: Fault | None = None
    answered_by: str = ""
    kind: Literal["call_result"] = "call_result"


@dataclass(frozen=True, slots=True)
class Progress:
    """The stage has made progress."""

    kind: Literal["progress"] = "progress"


@dataclass(frozen=True, slots=True)
class Alive:
    """The event loop of the child runs."""

    kind: Literal["alive"] = "alive"


@dataclass(frozen=True, slots=True)
class StageResult:
    """The result of the stage.

    Attributes:
        outage: Our own tables did not answer: the stage did not fail.
        memory_exceeded: The runs together left more memory than one may use.
    """

    value: str = "null"
    failure: ErrorEnvelope | None = None
    outage: bool = False
    memory_exceeded: bool = False
    kind: Literal["stage_result"] = "stage_result"


Message: TypeAlias = (
    Ready
    | Run
    | Call
    | Sleep
    | AskPerson
    | MapPart
    | MapEnd
    | MapRead
    | CancelCall
    | Attempt
    | CancelAttempt
    | CancelStage
    | AttemptResult
    | CallResult
    | Progress
    | Alive
    | StageResult
)

MESSAGE: TypeAdapter[Message] = TypeAdapter(
    Annotated[Message, Field(discriminator="kind")]
)


# ── send a call's error to the child ──────────────────────────────────────────

OURS: Mapping[str, type[PieceworkError]] = {
    kind.__name__: kind
    for kind in (
        AnswerTimeoutError,
        PermanentError,
        PolicyError,
        SemanticError,
        StateError,
        StoreError,
        TransientError,
    )
}


class AttemptError(RemoteError):
    """An error that a function raised in the child."""

    def __init__(
        self,
        envelope: ErrorEnvelope,
        attempt: int,
        usage: Usage | None = None,
        refused: RefusedAnswer | None = None,
    ) -> None:
        """Store the number of the attempt, its refused answer, and what that cost."""
        super().__init__(envelope)
        self.attempt = attempt
        self.facts: dict[str, object] = {} if usage is None else {"usage": usage}
        if refused is not None:
            self.facts["refused_answer"], self.facts["refused_places"] = refused


class AnsweredAttemptError(AttemptError, PieceworkError):
    """An error of a function that has read the dependency's answer."""


def fault_from_error(error: Exception, layer: str) -> Fault:
    """Return the message form of a call's error."""
    attempt = error.attempt if isinstance(error, AttemptError) else None
    envelope = noted(error) or classify(error, layer=layer)
    return Fault(type(error).__name__, envelope, attempt)


def error_from_fault(
    fault: Fault, raised: Mapping[int, BaseException]
) -> BaseException:
    """Return the error that `ctx.call` would raise in the worker itself."""
    if fault.attempt is not None and fault.attempt in raised:
        error = raised[fault.attempt]
    else:
        error = rebuild_error(fault)
    mark(error, fault.envelope)
    return error


def rebuild_error(fault: Fault) -> BaseException:
    """Return a copy of an error that was raised in the worker."""
    told = fault.envelope
    if fault.type in OURS:
        return OURS[fault.type](
            told.message,
            code=told.code,
            retry_after=told.retry_after,
            dependency=told.dependency,
        )
    if fault.type == TimeoutError.__name__:
        return TimeoutError(told.message)
    return RemoteError(told)
