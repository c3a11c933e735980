"""What a worker and its child say to each other: one stage, and the calls it makes.

    worker                                   child
    Run            ->
                   <-  Progress, as often as it likes
                   <-  Call                  a stage called `ctx.call`
    Attempt        ->                        carry it out, the intent is on record
                   <-  Attempted
    Answered       ->                        what `ctx.call` returns or raises
                   <-  Ended

`Withdraw` and `Drop` cut a call and an attempt short; each is answered all the same.
`Cut` ends the stage, but not the attempts: an effect that is to be undone lands first.
Values are JSON within the messages, written by whoever knows their type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from piecework.breaker import CircuitBreaker
from piecework.dependency import Dependency, Effect, Fallback
from piecework.errors import ErrorEnvelope
from piecework.retry import RetryPolicy


@dataclass(frozen=True, slots=True)
class Ready:
    """The child has its pipelines."""

    kind: Literal["ready"] = "ready"


@dataclass(frozen=True, slots=True)
class Run:
    """Do a stage, or undo it.

    Attributes:
        variant: The name of the stage function to run, as in `ways`.
        scope: What the context calls the stage; a compensation's has the epoch in it.
        values: What the earlier stages returned, by stage.
        memory_mb: What the stage may take beyond what its process has; 0: no limit.
        failure: Why the stage goes another way.
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
    kind: Literal["run"] = "run"


@dataclass(frozen=True, slots=True)
class DependencySpec:
    """A dependency without its functions: those stay in the child."""

    name: str
    retry: RetryPolicy
    effect: Effect
    layer: Literal["llm", "tool"]
    timeout: float
    fallback: Sequence[FallbackSpec] = ()
    breaker: CircuitBreaker | None = None
    cache_ttl_s: float | None = None
    key_ttl_s: float | None = None

    @classmethod
    def of(cls, dependency: Dependency) -> DependencySpec:
        """Leave out what cannot cross."""
        d = dependency
        chain = [FallbackSpec.of(each) for each in d.fallback]
        return cls(
            *(d.name, d.retry, d.effect, d.layer, d.timeout, chain, d.breaker),
            cache_ttl_s=d.cache_ttl_s,
            key_ttl_s=d.key_ttl_s,
        )


@dataclass(frozen=True, slots=True)
class FallbackSpec:
    """One further down a chain, without its functions; it may ask nobody."""

    spec: DependencySpec | None
    function: str

    @classmethod
    def of(cls, fallback: Fallback) -> FallbackSpec:
        """Leave out what cannot cross."""
        dependency = fallback.dependency
        spec = None if dependency is None else DependencySpec.of(dependency)
        return cls(spec, fallback.function.__qualname__)


@dataclass(frozen=True, slots=True)
class Call:
    """The stage calls the outside world."""

    call: int
    spec: DependencySpec
    function: str
    args: list[Any]
    kwargs: dict[str, Any]
    kind: Literal["call"] = "call"


@dataclass(frozen=True, slots=True)
class CancelCall:
    """The stage no longer waits for a call."""

    call: int
    kind: Literal["cancel_call"] = "cancel_call"


@dataclass(frozen=True, slots=True)
class Attempt:
    """Call the function of a call, or look up what an earlier attempt brought about.

    Attributes:
        place: Whose function it is: 0, or the place of another in the call's chain.
    """

    call: int
    number: int
    key: str
    lookup: bool = False
    position: int = 0
    kind: Literal["attempt"] = "attempt"


@dataclass(frozen=True, slots=True)
class CancelAttempt:
    """Cut an attempt off."""

    number: int
    kind: Literal["cancel_attempt"] = "cancel_attempt"


@dataclass(frozen=True, slots=True)
class CancelStage:
    """The stage is to end; attempts under way go on."""

    kind: Literal["cancel_stage"] = "cancel_stage"


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """What came of an attempt; neither value nor failure: it was cut off.

    Attributes:
        own: The function said in our words what the other side answered.
    """

    number: int
    value: str | None = None
    failure: ErrorEnvelope | None = None
    piecework_error: bool = False
    kind: Literal["attempt_result"] = "attempt_result"


@dataclass(frozen=True, slots=True)
class Fault:
    """An error that crosses to the child.

    Attributes:
        attempt: The attempt that raised it, where that is known: the child has it.
        type: The name of its type.
    """

    type: str
    envelope: ErrorEnvelope
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class CallResult:
    """What came of a call; neither value nor fault: it was withdrawn.

    Attributes:
        by: Who of its chain answered; empty: the dependency itself.
    """

    call: int
    value: str | None = None
    fault: Fault | None = None
    answered_by: str = ""
    kind: Literal["call_result"] = "call_result"


@dataclass(frozen=True, slots=True)
class Progress:
    """The stage is alive."""

    kind: Literal["progress"] = "progress"


@dataclass(frozen=True, slots=True)
class StageResult:
    """What came of the stage.

    Attributes:
        outage: Our own tables did not answer: it is not the stage that failed.
        full: All its runs together left more behind than one of them may take.
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
    | CancelCall
    | Attempt
    | CancelAttempt
    | CancelStage
    | AttemptResult
    | CallResult
    | Progress
    | StageResult
)

MESSAGE: TypeAdapter[Message] = TypeAdapter(
    Annotated[Message, Field(discriminator="kind")]
)
