"""An outside service as a pipeline sees it: its retries, and what its calls do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from piecework.errors import ErrorEnvelope, PermanentError, UsageError
from piecework.retry import RetryPolicy


class Effect(StrEnum):
    """What a call leaves behind in the outside world, declared once a dependency.

    The kind decides what happens when a worker dies between a call and its
    record, the one moment in which nobody can know whether the call took place.
    """

    #: Nothing. Its result is remembered, and it may be made again at a price.
    PURE = "pure"
    #: Something, but the provider honours the idempotency key: ask again with it.
    PROVIDER_IDEMPOTENT = "provider_idempotent"
    #: Something that can be looked up by our key before it is done again.
    LOOKUP = "lookup"
    #: Something that can be neither repeated nor looked up: a person decides.
    NON_IDEMPOTENT = "non_idempotent"


@dataclass(frozen=True, slots=True)
class Dependency:
    """A named outside service.

    Attributes:
        name: Stands in keys, tables and logs; never rename one with jobs open.
        retry: Tier one, inside the worker.
        effect: What its calls leave behind.
        layer: The first word of its error codes: `llm` or `tool`.
        timeout: Seconds a single attempt may take.
        lookup: For `Effect.LOOKUP`: given the arguments of the call and its key,
            returns what an earlier attempt brought about, or None.
    """

    name: str
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    effect: Effect = Effect.PURE
    layer: Literal["llm", "tool"] = "tool"
    timeout: float = 60.0
    lookup: Callable[..., Awaitable[Any]] | None = None

    def __post_init__(self) -> None:
        """Refuse a dependency that could not do what it declares."""
        if (self.effect is Effect.LOOKUP) != (self.lookup is not None):
            message = (
                f"Dependency {self.name!r}: `lookup` and Effect.LOOKUP go together."
            )
            raise UsageError(message, code="pipeline.declaration.invalid")


#: HTTP statuses that say "not done". Not 408, a time-out, nor 409, which may mean that
#: the same thing is being done already.
REFUSALS = frozenset(range(400, 500)) - {408, 409}


def plainly_refused(failure: ErrorEnvelope) -> bool:
    """Say whether the other side answered that it did not do it.

    A time-out, a broken connection or a 5xx says nothing of what happened behind it.
    """
    return failure.http_status in REFUSALS


def in_doubt(dependency: Dependency, function: Callable[..., Any]) -> PermanentError:
    """Return the error of an effect that may or may not have happened."""
    called = f"{function.__name__} of {dependency.name}"
    message = f"Nobody can tell whether {called} took place."
    return PermanentError(message, code="runtime.effect.unknown")
