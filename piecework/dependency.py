"""An outside service as a pipeline sees it: its retries, and what its calls do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

from piecework.breaker import OPEN_CODE, CircuitBreaker
from piecework.errors import ErrorEnvelope, PermanentError, StageError, UsageError
from piecework.retry import RetryPolicy
from piecework.retry_tokens import SPENT_CODE
from piecework.usage import Usage

#: What is done where nothing is said: five attempts with ceilings from 250 ms for
#: services, three with ceilings from one second for models.
TOOL_RETRY: Final = RetryPolicy()
MODEL_RETRY: Final = RetryPolicy(attempts=3, base=1.0)


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
        retry: Tier one, inside the worker; a model's is more patient if none is given.
        effect: What its calls leave behind.
        layer: The first word of its error codes: `llm` or `tool`.
        timeout: Seconds a single attempt may take.
        lookup: For `Effect.LOOKUP`: given the arguments of the call and its key,
            returns what an earlier attempt brought about, or None.
        breaker: When the whole fleet stops calling for a while; None: never.
        fallback: Who is asked, in turn, when a call is refused by a policy or an open
            circuit breaker: all of them leave something behind, or none does.
        classify: What an error of it means, in our words: given what its function
            raised, or what that was raised from, returns one of our five errors with
            its code, or None. Nothing is raised but the error itself.
        key_ttl_s: For `Effect.PROVIDER_IDEMPOTENT`: seconds for which the provider
            knows a key. An effect that was left in doubt for longer is not asked for
            again, which might do it twice: a person decides. None: it never forgets.
        cache_ttl_s: Seconds, from an hour to a day, for which the response of a call is
            shared with all jobs of the tenant: equal arguments, such as model,
            messages and temperature, are then paid for once. None: each job pays.
        usage: What a call cost, given its answer: tokens, and money if the answer says
            so; for the job's bill, see `piecework jobs cost`. None: it is only counted.
    """

    name: str
    retry: RetryPolicy = TOOL_RETRY
    effect: Effect = Effect.PURE
    layer: Literal["llm", "tool"] = "tool"
    timeout: float = 60.0
    lookup: Callable[..., Awaitable[Any]] | None = None
    fallback: Sequence[Fallback] = ()
    breaker: CircuitBreaker | None = field(default_factory=CircuitBreaker)
    classify: Callable[[BaseException], StageError | None] | None = None
    cache_ttl_s: float | None = None
    key_ttl_s: float | None = None
    usage: Callable[[Any], Usage] | None = None

    def __post_init__(self) -> None:
        """Refuse a dependency that could not do what it declares."""
        if self.layer == "llm" and self.retry is TOOL_RETRY:
            object.__setattr__(self, "retry", MODEL_RETRY)
        if (self.effect is Effect.LOOKUP) != (self.lookup is not None):
            message = (
                f"Dependency {self.name!r}: `lookup` and Effect.LOOKUP go together."
            )
            raise UsageError(message, code="pipeline.declaration.invalid")
        object.__setattr__(self, "fallback", tuple(self.fallback))
        complaints = [
            *chain_complaints(self),
            *cache_complaints(self),
            *memory_complaints(self),
        ]
        for complaint in complaints:
            message = f"Dependency {self.name!r}: {complaint}."
            raise UsageError(message, code="pipeline.declaration.invalid")

    def has_forgotten(self, seconds: float) -> bool:
        """Say whether a key that was sent so long ago may be new to it again."""
        return self.key_ttl_s is not None and seconds >= self.key_ttl_s


@dataclass(frozen=True, slots=True)
class Fallback:
    """Who is asked in the place of a dependency that refuses.

    Attributes:
        dependency: Whose call it is; None: a plain function of ours, which is given no
            idempotency key.
        function: Takes the arguments of the refused call, and returns its type.
    """

    dependency: Dependency | None
    function: Callable[..., Any]

    @property
    def name(self) -> str:
        """What it is called in events and in `ctx.fallbacks_used`."""
        if self.dependency is not None:
            return self.dependency.name
        return str(getattr(self.function, "__name__", self.function))

    @property
    def pure(self) -> bool:
        """Whether it leaves nothing behind."""
        return self.dependency is None or self.dependency.effect is Effect.PURE


def chain_complaints(dependency: Dependency) -> list[str]:
    """Say what is wrong with a fallback chain, as a sentence's end."""
    chain = dependency.fallback
    names = [dependency.name, *(each.name for each in chain)]
    pure = dependency.effect is Effect.PURE
    found = [
        f"{each.name!r} in its chain has a chain of its own: write them as one"
        for each in chain
        if each.dependency is not None and each.dependency.fallback
    ]
    if len(set(names)) < len(names):
        found.append("two of its chain have the same name")
    if any(each.pure is not pure for each in chain):
        found.append("of its chain some leave something behind, and some do not")
    return found


#: Codes of attempts that were not made at all.
NOT_MADE = frozenset({OPEN_CODE, SPENT_CODE})
#: Seconds that a response may be shared for.
SHORTEST_CACHE_S, LONGEST_CACHE_S = 3_600, 86_400


def cache_complaints(dependency: Dependency) -> list[str]:
    """Say what is wrong with the sharing of responses, as a sentence's end."""
    seconds = dependency.cache_ttl_s
    if seconds is None:
        return []
    found = []
    if dependency.effect is not Effect.PURE:
        found.append("what leaves something behind cannot be answered from a cache")
    if not SHORTEST_CACHE_S <= seconds <= LONGEST_CACHE_S:
        found.append(f"cache_ttl_s is {seconds}; keep it between an hour and a day")
    return found


def memory_complaints(dependency: Dependency) -> list[str]:
    """Say what is wrong with how long a provider knows a key, as a sentence's end."""
    seconds = dependency.key_ttl_s
    if seconds is None:
        return []
    found = []
    if dependency.effect is not Effect.PROVIDER_IDEMPOTENT:
        found.append("`key_ttl_s` and Effect.PROVIDER_IDEMPOTENT go together")
    if seconds <= dependency.timeout:
        found.append(f"key_ttl_s is {seconds}, no longer than a single attempt")
    return found


#: HTTP statuses that say "not done". Not 408, a time-out, nor 409, which may mean that
#: the same thing is being done already.
REFUSALS = frozenset(range(400, 500)) - {408, 409}


def plainly_refused(failure: ErrorEnvelope) -> bool:
    """Say whether it was not done: the other side said so, or was never asked.

    A time-out, a broken connection or a 5xx says nothing of what happened behind it.
    """
    return failure.http_status in REFUSALS or failure.code in NOT_MADE


def waited_for(failure: ErrorEnvelope) -> str:
    """Return the dependency that nobody asks for now, if that is the failure."""
    return failure.dependency if failure.code in NOT_MADE else ""


def in_doubt(dependency: Dependency, function: Callable[..., Any]) -> PermanentError:
    """Return the error of an effect that may or may not have happened."""
    called = f"{function.__name__} of {dependency.name}"
    message = f"Nobody can tell whether {called} took place."
    return PermanentError(message, code="runtime.effect.unknown")
