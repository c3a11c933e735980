"""Declare an external service: its retries, its limits and the effects of its calls."""

from __future__ import annotations

import functools
import inspect
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, ParamSpec, Protocol, TypeVar, overload

from piecework.domain.budget import NANO
from piecework.domain.effect import Effect
from piecework.domain.identity import (
    at_its_place,
    declare_text,
    function_text,
    named_call,
)
from piecework.domain.keys import TENANT_LIMIT
from piecework.errors import PermanentError, StageError, UsageError
from piecework.idempotency.strategies import (
    KnownOperation,
    SequenceNumbers,
    Strategy,
    TimeWindow,
)
from piecework.resilience.batching import Batching
from piecework.resilience.breaker import CircuitBreaker
from piecework.resilience.lanes import BATCH, DIRECT, Lane
from piecework.resilience.limits import Limits
from piecework.resilience.retry import RetryPolicy
from piecework.resilience.warming import Warming

P = ParamSpec("P")
R = TypeVar("R")

#: Which calls are kept with their arguments, for people.
RECORDS: Final = ("failed", "all", "none")

# ── usage of a call ───────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Usage:
    """What one call cost.

    Attributes:
        tokens_in, tokens_out: As the provider counted them.
        usd: The price in dollars; None: it is unknown, and the bill uses its table of
            prices.
        model: The name in the table of prices; empty: the dependency's name.
        response_model: The model that answered, as the provider names it; empty: not
            stated. Traces show it, and what follows.
        finish_reason: Why it stopped, in the provider's word; empty: not stated.
        cached_tokens_in, cache_write_tokens_in: The parts of `tokens_in` that were read
            from a cache, and written to one.
        saved_usd: What a direct request would have cost more than the tier that served
            this one.
    """

    tokens_in: int = 0
    tokens_out: int = 0
    usd: float | None = None
    model: str = ""
    response_model: str = ""
    finish_reason: str = ""
    cached_tokens_in: int = 0
    cache_write_tokens_in: int = 0
    saved_usd: float = 0.0

    @property
    def whole_amounts(self) -> tuple[int, int, int]:
        """Tokens in, tokens out, and billionths of a dollar."""
        return self.tokens_in, self.tokens_out, round((self.usd or 0.0) * NANO)


#: The default policies. Services: five attempts, delay limits from 250 ms. Models:
#: one attempt and three retries, with delay limits of 1, 2 and 4 seconds.
TOOL_RETRY: Final = RetryPolicy()
MODEL_RETRY: Final = RetryPolicy(attempts=4, base=1.0)

#: Seconds of one attempt. A model may need more than 30 seconds for a long answer.
#: After a timeout, the next attempt pays for the answer again.
TOOL_TIMEOUT_S: Final = 30.0
MODEL_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Dependency:
    """A named external service.

    Attributes:
        name: Part of keys, tables and logs. Do not rename one while jobs are open.
        retry: The retries inside the worker. If a model has no policy of its own,
            `MODEL_RETRY` applies.
        effect: What the calls change outside Piecework.
        layer: The first word of the error codes: `llm` or `tool`.
        timeout: Seconds that a single attempt may take. None: `TOOL_TIMEOUT_S`, or for
            a model `MODEL_TIMEOUT_S`.
        lookup: For `Effect.LOOKUP`: receives the arguments of the call and its key. It
            returns the result of an earlier attempt, or None.
        fallback: The replacements, in order, for a call that a policy or an open
            breaker refuses. All of them have an effect, or all have none.
        fallback_codes: Error codes of further failures that the next fallback answers,
            once the retries are spent.
        breaker: When the whole fleet stops calling for a while; None: never.
        classify: What an error of the dependency means. It receives the error that the
            function raised, or a cause of it. It returns one of the five Piecework
            errors with its code, or None. The stage still receives the original error.
        cache_ttl_s: Seconds, from an hour to a day, for which the response of a pure
            call is shared. All jobs of the tenant that run the same pipeline share it.
            Equal arguments, such as model, messages and temperature, are then paid for
            once. None: each job pays.
        key_ttl_s: For `Effect.PROVIDER_IDEMPOTENT`: seconds for which the provider
            knows a key. An effect that was in doubt for longer is not requested again,
            because that might execute it twice. An operator decides. None: for ever.
        usage: Computes what a call cost from its answer: tokens, and money if the
            answer contains it; see `piecework jobs cost`. None: calls are only counted.
        limits: What all workers together may use in a second or a minute. A call that
            does not fit waits for its start; see docs/limits.md. None: no limit.
        adaptive_rate: Whether an answer 429 slows the whole fleet down, so that it
            finds the rate that the dependency accepts. False: only the refused call
            waits for its `Retry-After`. Use it for dependencies that answer 429 only
            above their limit. One that does so by chance would be called ever more
            slowly.
        estimate: Computes the tokens of a call from its arguments, before it is made.
            None: a quarter of the characters of its texts, plus `max_tokens`.
        estimate_usd: Computes the price of a call in dollars from its arguments, before
            it is made. A job with a budget in dollars needs it of each model. `usage`
            says what the call cost in the end.
        provider, model: For a model: its provider, and its id there. Events and traces
            name both; they change no key.
        version: Part of the key of shared responses: responses of another version are
            not used. Calls of a chunk that were answered are not made again.
        by: Which calls of all chunks and jobs of a tenant are the same operation: a
            `TimeWindow` or `SequenceNumbers`. Such calls are made once; see
            docs/effects.md. The store writes twice for such a call. None: each chunk
            makes its own calls.
        record_calls: Which of its calls are kept with their arguments, for people:
            `failed`, `all` or `none`. None: as the setting `record_calls` says.
        lane: For a model, whose pure calls can wait: the cheaper tier that its requests
            ask for, and for how long. `Model(lane=…)` sets it.
        batch: For a model in the batch lane: how it is asked. `Model(…)` sets it.
        warming: For a model: lets one request of each prefix go before the others.
            `Model(warm=True)` sets it.
        scope: For `by`: the user and the task, or a function that receives the
            arguments by name and returns that text. Equal scopes share their answers.

    Raises:
        UsageError: `pipeline.declaration.invalid`.
    """

    name: str
    retry: RetryPolicy = TOOL_RETRY
    effect: Effect = Effect.PURE
    layer: Literal["llm", "tool"] = "tool"
    timeout: float | None = None
    lookup: Callable[..., Awaitable[Any]] | None = None
    fallback: Sequence[Fallback] = ()
    fallback_codes: frozenset[str] = frozenset()
    breaker: CircuitBreaker | None = field(default_factory=CircuitBreaker)
    classify: Callable[[BaseException], StageError | None] | None = None
    cache_ttl_s: float | None = None
    key_ttl_s: float | None = None
    usage: Callable[[Any], Usage] | None = None
    limits: Limits | None = None
    adaptive_rate: bool = False
    estimate: Callable[..., int] | None = None
    estimate_usd: Callable[..., float] | None = None
    provider: str = ""
    model: str = ""
    version: str = ""
    by: Strategy | None = None
    scope: str | Callable[..., str] = ""
    record_calls: Literal["failed", "all", "none"] | None = None
    lane: Lane = DIRECT
    batch: Batching | None = None
    warming: Warming | None = None

    def __post_init__(self) -> None:
        """Refuse a declaration that contradicts itself."""
        if self.layer == "llm" and self.retry is TOOL_RETRY:
            object.__setattr__(self, "retry", MODEL_RETRY)
        chain: Any = self.fallback
        listed = tuple(chain) if isinstance(chain, Iterable) else (chain,)
        object.__setattr__(self, "fallback", listed)
        errors = [
            *name_errors(self),
            *lookup_errors(self),
            *fallback_errors(self),
            *cache_errors(self),
            *key_ttl_errors(self),
            *strategy_errors(self),
            *function_errors(self),
            *limit_errors(self),
            *record_errors(self),
            *lane_errors(self),
        ]
        for error in errors:
            message = f"Dependency {self.name!r}: {error}."
            raise UsageError(message, code="pipeline.declaration.invalid")
        if listed:
            from piecework.domain.result_types import require_kept  # loads pydantic

            require_kept(*(each.function for each in listed))

    @overload
    def call(self, function: Callable[P, Awaitable[R]], /) -> DeclaredCall[P, R]: ...
    @overload
    def call(
        self, /, *, name: str, version: str = ""
    ) -> Callable[[Callable[P, Awaitable[R]]], DeclaredCall[P, R]]: ...
    def call(
        self,
        function: Callable[..., Awaitable[Any]] | None = None,
        /,
        *,
        name: str = "",
        version: str = "",
    ) -> Any:
        """Declare a function that calls this dependency.

        In a chunk its calls are retried and remembered, as by `ctx.call`. Outside of a
        chunk it just runs. A parameter `idempotency_key: str = ""` receives the key.

        Args:
            function: An `async def` at the top level of a module, or with a `name`.
            name: Stands in keys in place of module and qualified name. So the function
                may move, and its calls are not paid for again.
            version: Another version makes the calls again.

        Raises:
            UsageError: `pipeline.declaration.invalid`: the dependency needs the key,
                and the function does not take it; `pipeline.call.indistinct`: no name
                leads to the function.
        """

        def declare(function: Callable[..., Awaitable[Any]]) -> DeclaredCall[..., Any]:
            declared = named_call(name, version=version) if name else at_its_place
            return DeclaredCall(self, declared(function))

        return declare if function is None else declare(function)

    @property
    def timeout_s(self) -> float:
        """Seconds that a single attempt may take."""
        if self.timeout is not None:
            return self.timeout
        return MODEL_TIMEOUT_S if self.layer == "llm" else TOOL_TIMEOUT_S

    @property
    def longest_s(self) -> float:
        """Seconds that a single attempt may take in any lane."""
        return max(self.timeout_s, self.lane.timeout)

    def may_have_forgotten(self, seconds: float) -> bool:
        """Return whether the provider may not know a key of that age any more."""
        return self.key_ttl_s is not None and seconds >= self.key_ttl_s


class Calls(Protocol):
    """What makes the calls of a chunk: its context."""

    async def call(
        self,
        dependency: Dependency,
        function: Callable[..., Awaitable[R]],
        /,
        *args: Any,
        **kwargs: Any,
    ) -> R:
        """Call an outside service."""


#: What makes the calls in the stage that runs now; None: no stage runs.
CURRENT: ContextVar[Calls | None] = ContextVar("CURRENT", default=None)
#: The tool of an agent that is a pure call and runs now; empty: none runs.
INSIDE: ContextVar[str] = ContextVar("INSIDE", default="")

#: The lane of the attempt that runs now; None: no call of a chunk runs.
TAKEN: ContextVar[Lane | None] = ContextVar("TAKEN", default=None)


@contextmanager
def taking(lane: Lane) -> Iterator[None]:
    """Let the called function know the lane of its attempt."""
    token = TAKEN.set(lane)
    try:
        yield
    finally:
        TAKEN.reset(token)


@contextmanager
def outside_chunk() -> Iterator[None]:
    """Let declared calls just run while a called function is executed.

    What the function calls itself is a part of its own call. No call waits for a slot
    that its own caller holds.
    """
    token = CURRENT.set(None)
    try:
        yield
    finally:
        CURRENT.reset(token)


class DeclaredCall(Generic[P, R]):
    """A function of a dependency, declared by `Dependency.call`."""

    def __init__(
        self, dependency: Dependency, function: Callable[P, Awaitable[R]]
    ) -> None:
        if needs_key(dependency) and not takes_key(function):
            message = f"{function.__qualname__} does not take the idempotency key."
            raise UsageError(
                message,
                code="pipeline.declaration.invalid",
                next_step='Add the parameter `idempotency_key: str = ""`.',
            )
        from piecework.domain.result_types import require_kept  # loads pydantic

        require_kept(function)
        functools.update_wrapper(self, function)
        self.dependency = dependency
        self.function = function

    async def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Make the call through the chunk whose stage runs, or just run."""
        calls = CURRENT.get()
        if calls is not None:
            return await calls.call(self.dependency, self.function, *args, **kwargs)
        if (tool := INSIDE.get()) and self.dependency.effect is not Effect.PURE:
            raise UsageError(
                f"{self.function.__qualname__} has an effect, and the tool {tool!r} "
                "that calls it is declared as pure.",
                code="pipeline.declaration.invalid",
                next_step=f'Write tools={{"{tool}": None}}: the tool then runs in the '
                "stage, and remembers its calls one by one.",
            )
        if takes_key(self.function):
            kwargs.setdefault(KEY, uuid.uuid4().hex)
        return await self.function(*args, **kwargs)

    def replaced(self, answer: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        """Return a function with the name and type of this one that answers otherwise.

        For tests; it does not pass the idempotency key on.
        """
        function = self.function

        @functools.wraps(function)
        async def call(*args: Any, **kwargs: Any) -> Any:
            kwargs.pop(KEY, None)
            return await answer(*args, **kwargs)

        return declare_text(call, function_text(function), call)


def bare(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function without its declaration as a call."""
    return function.function if isinstance(function, DeclaredCall) else function


#: The parameter that receives the idempotency key.
KEY: Final = "idempotency_key"
#: Functions whose signature is cached; bounded, because a stage may create functions.
FUNCTIONS_KEPT: Final = 1_024


@functools.lru_cache(FUNCTIONS_KEPT)
def takes_key(function: Callable[..., Any]) -> bool:
    """Return whether a function has a parameter for the idempotency key."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # a builtin without a signature
        return True
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    return takes_any or KEY in parameters


def key_argument(function: Callable[..., Any], key: str) -> dict[str, str]:
    """Return the key as an argument, if the function takes it."""
    return {KEY: key} if takes_key(function) else {}


def needs_key(dependency: Dependency) -> bool:
    """Return whether an effect happens once only if the provider gets the key."""
    return dependency.effect in {Effect.PROVIDER_IDEMPOTENT, Effect.LOOKUP}


@dataclass(frozen=True, slots=True)
class Fallback:
    """The replacement for a dependency that refuses a call.

    Attributes:
        dependency: The dependency that the function calls; None: the function calls no
            service, and receives no idempotency key.
        function: Receives the arguments of the refused call, and returns its type.
    """

    dependency: Dependency | None
    function: Callable[..., Any]

    @property
    def name(self) -> str:
        """The name in events and in `ctx.fallbacks_used`."""
        if self.dependency is not None:
            return self.dependency.name
        return str(getattr(self.function, "__name__", self.function))

    @property
    def pure(self) -> bool:
        """Whether the call has no effect."""
        return self.dependency is None or self.dependency.effect is Effect.PURE


@dataclass(frozen=True, slots=True)
class FallbackUsed:
    """A call of a stage that a fallback has answered.

    Attributes:
        dependency: The dependency that refused the call.
        answered_by: The name of the fallback: a dependency or a plain function.
    """

    stage: str
    dependency: str
    answered_by: str


def lookup_errors(dependency: Dependency) -> list[str]:
    """Return what is wrong with the lookup, each as the end of a sentence."""
    if (dependency.effect is Effect.LOOKUP) == (dependency.lookup is not None):
        return []
    return ["`lookup` and Effect.LOOKUP go together: declare both or neither"]


def fallback_errors(dependency: Dependency) -> list[str]:
    """Return what is wrong with the fallbacks, each as the end of a sentence."""
    fallbacks = dependency.fallback
    if not all(isinstance(each, Fallback) for each in fallbacks):
        return ["`fallback` is a list of Fallback(dependency, function)"]
    names = [dependency.name, *(each.name for each in fallbacks)]
    pure = dependency.effect is Effect.PURE
    found = [
        f"its fallback {each.name!r} has fallbacks of its own: list them all here"
        for each in fallbacks
        if each.dependency is not None and each.dependency.fallback
    ]
    if len(set(names)) < len(names):
        found.append("two members of its fallback chain have the same name")
    if any(each.pure is not pure for each in fallbacks):
        found.append("some of its fallbacks have an effect and some have none")
    return found


#: The limits of `cache_ttl_s`, in seconds.
MIN_CACHE_TTL_S, MAX_CACHE_TTL_S = 3_600, 86_400


def cache_errors(dependency: Dependency) -> list[str]:
    """Return what is wrong with the response cache, each as the end of a sentence."""
    seconds = dependency.cache_ttl_s
    if seconds is None:
        return []
    found = []
    if dependency.effect is not Effect.PURE:
        found.append("a call with an effect cannot be answered from a cache")
    if not MIN_CACHE_TTL_S <= seconds <= MAX_CACHE_TTL_S:
        found.append(f"cache_ttl_s is {seconds}; keep it between an hour and a day")
    return found


def name_errors(dependency: Dependency) -> list[str]:
    """Return what is wrong with the name, each as the end of a sentence."""
    if not dependency.name.strip():
        return ["its name is empty"]
    if dependency.name.casefold().startswith(TENANT_LIMIT):
        return [f"a name that begins with {TENANT_LIMIT} is the cap of a tenant"]
    return []


def key_ttl_errors(dependency: Dependency) -> list[str]:
    """Return what is wrong with `key_ttl_s`, each as the end of a sentence."""
    seconds = dependency.key_ttl_s
    if seconds is None:
        return []
    found = []
    if dependency.effect is not Effect.PROVIDER_IDEMPOTENT:
        found.append("`key_ttl_s` and Effect.PROVIDER_IDEMPOTENT go together")
    if seconds <= dependency.timeout_s:
        found.append(f"key_ttl_s is {seconds}; it must be longer than `timeout`")
    return found


#: What may distinguish the calls of several chunks. `ByKey` remembers refusals, which
#: the retries of a chunk must not find.
SHARED_BY: Final = (TimeWindow, SequenceNumbers, KnownOperation)
#: The effects whose calls several chunks may share. A lookup knows a call by the key of
#: its chunk. An effect that cannot be repeated must have one owner.
SHARED_EFFECTS: Final = frozenset({Effect.PURE, Effect.PROVIDER_IDEMPOTENT})


def strategy_errors(dependency: Dependency) -> list[str]:
    """Return what is wrong with `by` and `scope`, each as the end of a sentence."""
    by, scope = dependency.by, dependency.scope
    if by is None:
        return ["`scope` needs `by`"] if scope else []
    found = []
    if not isinstance(by, SHARED_BY):
        found.append(f"by is {by!r}; give a TimeWindow or SequenceNumbers")
    needs_scope = not isinstance(by, KnownOperation)
    if needs_scope and (not scope or not (isinstance(scope, str) or callable(scope))):
        found.append("`by` needs a `scope`, such as the name of the user")
    if dependency.effect not in SHARED_EFFECTS:
        found.append(f"`by` and Effect.{dependency.effect.name} exclude each other")
    if dependency.fallback and isinstance(by, SequenceNumbers):
        # A number that a fallback answers would never be done.
        found.append("SequenceNumbers and `fallback` exclude each other")
    if dependency.cache_ttl_s is not None:
        found.append("`by` and `cache_ttl_s` exclude each other: choose one")
    return found


#: The arguments of a dependency that are functions.
FUNCTIONS = ("lookup", "classify", "usage", "estimate", "estimate_usd")


def limit_errors(dependency: Dependency) -> Iterator[str]:
    """Yield the error of limits that contradict each other."""
    if dependency.limits is not None and dependency.limits.contradiction:
        yield dependency.limits.contradiction


def record_errors(dependency: Dependency) -> Iterator[str]:
    """Yield the error of a word that says nothing about which calls are kept."""
    given = dependency.record_calls
    if given is not None and given not in RECORDS:
        yield f"record_calls is {given!r}; write {', '.join(RECORDS)} or None"


def lane_errors(dependency: Dependency) -> Iterator[str]:
    """Yield the error of a lane whose calls must not wait, or be repeated."""
    given: Any = dependency.lane
    if not isinstance(given, Lane):
        yield f"lane is {given!r}; write Lane.direct(), Lane.flex() or Lane.batch()"
    elif given.tier and dependency.effect is not Effect.PURE:
        yield f"a lane and Effect.{dependency.effect.name} exclude each other"
    elif given.tier == BATCH and dependency.by is not None:
        yield "the batch lane and `by` exclude each other"


def function_errors(dependency: Dependency) -> list[str]:
    """Return which functions are something else, each as the end of a sentence.

    A number in place of `estimate_usd` would fail each call.
    """
    given = {name: getattr(dependency, name) for name in FUNCTIONS}
    return [
        f"{name} is {value!r}; give a function"
        for name, value in given.items()
        if value is not None and not callable(value)
    ]


def effect_unknown_error(
    dependency: Dependency, function: Callable[..., Any]
) -> PermanentError:
    """Return the error of an effect that may or may not have happened."""
    called = f"{function.__name__} of {dependency.name}"
    message = f"It is unknown whether {called} took place."
    return PermanentError(message, code="runtime.effect.unknown")
