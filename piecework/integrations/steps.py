"""Make each step of an agent a call: a request to a model, or a call of a tool.

remembered = identity -> key -> stored? -> the framework's own object -> stored

A step has two halves. The identity is what makes it the same step in a later claim: the
messages without what the framework draws anew. The rest is what the framework's own
object receives, as it came. Neither the key nor a record has it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self, cast

from piecework.calls.call import call_key
from piecework.calls.usage import CHARACTERS_PER_TOKEN, characters
from piecework.context import Context
from piecework.dependency import (
    CURRENT,
    INSIDE,
    DeclaredCall,
    Dependency,
    Fallback,
    Usage,
)
from piecework.domain.arguments import digest_of
from piecework.domain.effect import Effect
from piecework.domain.identity import declare_text
from piecework.errors import UsageError
from piecework.llm.model import FALLBACK_CODES
from piecework.llm.request import ModelAnswer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from piecework.llm.prices import Priced

#: The dependency of tools that name no other: they are pure.
TOOLS: Final = Dependency("tools")
#: Tokens of an answer, for the estimate of a request whose settings have no limit.
ANSWER_TOKENS: Final = 4_096
#: The key of the step that runs; empty: none runs.
_KEY: ContextVar[str] = ContextVar("_KEY", default="")


class _Live:
    """Holds what neither keys nor records see, because no field of a step has it."""

    __slots__ = ("live",)
    live: Any


@dataclass(frozen=True, slots=True)
class Step(_Live):
    """The argument of a step's call.

    Attributes:
        identity: What the key is made of.
        max_tokens: The most tokens of the answer of a model, for its estimate.
    """

    identity: Any
    max_tokens: int = 0

    @classmethod
    def of(cls, identity: Any, live: Any, max_tokens: int = 0) -> Self:
        """Return a step; `live`: what the framework's own object receives."""
        step = cls(identity, max_tokens)
        object.__setattr__(step, "live", live)
        return step

    def __deepcopy__(self, memo: object) -> Self:
        """Return itself: an attempt does not change a step."""
        del memo
        return self


#: Makes a step of a framework's object; it receives the live half and the key.
Send = Callable[[Any, str], Awaitable[Any]]


def idempotency_key() -> str:
    """Return the key of the tool that runs, for its provider; empty: none runs.

    A tool with an effect passes it on, so that the provider knows a repetition.
    """
    return _KEY.get()


def declared_step(
    dependency: Dependency, name: str, send: Send, distinct: Any = ""
) -> DeclaredCall[[Step], Any]:
    """Return the call of a model or a tool; its answers are JSON.

    `distinct`: tells two of one name apart that are used in one stage.
    """
    is_pure = dependency.effect is Effect.PURE

    async def step(given: Step, *, idempotency_key: str = "") -> Any:
        token = _KEY.set(idempotency_key)
        try:
            with _inside(name if is_pure else ""):
                return await send(given.live, idempotency_key)
        finally:
            _KEY.reset(token)

    step.__name__ = step.__qualname__ = name  # in events, errors and counts of tests
    text = json.dumps(["named", f"step {name}", ""])
    return DeclaredCall(dependency, declare_text(step, text, (name, distinct)))


@contextmanager
def _inside(name: str) -> Iterator[None]:
    token = INSIDE.set(name)
    try:
        yield
    finally:
        INSIDE.reset(token)


async def call_tool(call: DeclaredCall[[Step], Any], step: Step) -> Any:
    """Make the call of a tool: the second equal one of a stage is a call of its own.

    An agent asks a tool again because the answer may have changed. An effect is one
    call however often it is asked for, as everywhere.
    """
    ctx = CURRENT.get()
    if isinstance(ctx, Context) and call.dependency.effect is Effect.PURE:
        asked, number, first = ctx.caller.functions.by_key, 1, step.identity
        while _key(ctx, call, step) in asked:
            number += 1
            step = Step.of([number, first], step.live)
    return await call(step)


def _key(ctx: Context[Any], call: DeclaredCall[[Step], Any], step: Step) -> str:
    digest = digest_of([step], {})
    return call_key(ctx.scope, call.dependency, call.function, digest)


# ── models ────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ModelStep:
    """The requests to one model.

    Attributes:
        dependency: That of its calls, without fallbacks.
        call: Makes a request.
    """

    dependency: Dependency
    call: DeclaredCall[[Step], Any]

    @classmethod
    def of(
        cls,
        dependency: Dependency | None,
        *,
        provider: str,
        model: str,
        send: Send,
        tokens: Callable[[Any], ModelAnswer],
        price: Priced | None = None,
        fallback: Sequence[ModelStep] = (),
    ) -> ModelStep:
        """Declare the requests to a model.

        Args:
            dependency: With limits, retries and so on; None: one with the model's name.
            provider: The framework's name of the provider.
            model: Its name of the model.
            send: Sends a request and returns the answer as JSON.
            tokens: Returns the tokens of an answer.
            price: What they cost; None: the bill has tokens without money.
            fallback: The models that are asked if this one is overloaded or refuses.
        """
        given = dependency or Dependency(f"{provider}:{model}", layer="llm")

        def usage(answer: Any) -> Usage:
            count = tokens(answer)
            usd = None if price is None else price.usd(count)
            return Usage(count.tokens_in, count.tokens_out, usd, model)

        def estimate(step: Step) -> int:
            return texts_of(step) + (step.max_tokens or ANSWER_TOKENS)

        def estimate_usd(step: Step) -> float:
            most = step.max_tokens or ANSWER_TOKENS
            sent = ModelAnswer("", tokens_in=texts_of(step), tokens_out=most)
            return 0.0 if price is None else price.usd(sent)

        alone = replace(
            given,
            layer="llm",
            usage=given.usage or usage,
            estimate=given.estimate or estimate,
            estimate_usd=given.estimate_usd or (estimate_usd if price else None),
            provider=given.provider or provider,
            model=given.model or model,
            fallback=(),
        )
        own = declared_step(alone, given.name, send, (provider, model))
        others = [Fallback(each.dependency, each.call.function) for each in fallback]
        chain = [*given.fallback, *others]
        codes = given.fallback_codes or (FALLBACK_CODES if chain else frozenset())
        whole = replace(alone, fallback=chain, fallback_codes=codes)
        return cls(alone, DeclaredCall(whole, own.function))


def texts_of(step: Step) -> int:
    """Return about how many tokens the texts of a request have."""
    return characters(step.identity) // CHARACTERS_PER_TOKEN


def streamed_error() -> UsageError:
    """Return the error of an agent that streams in a stage."""
    return UsageError(
        "A streamed request of an agent is not stored, so it is paid again.",
        code="pipeline.call.streamed",
    )


# ── tools ─────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Declared:
    """What a program declares of the tools of an agent.

    Attributes:
        tools: The dependency of each tool with an effect; None: code of the stage.
        others: That of all other tools.
    """

    tools: Mapping[str, Dependency | None] = field(default_factory=dict)
    others: Dependency | None = TOOLS

    def of(self, name: str) -> Dependency | None:
        """Return the dependency of a tool; None: it is code of the stage."""
        return dependency_of(name, self.tools, self.others)


def dependency_of(
    name: str, tools: Mapping[str, Dependency | None], others: Dependency | None
) -> Dependency | None:
    """Return the dependency of a tool; None: it is code of the stage."""
    found = tools.get(name, others)
    if found is None or found.lookup is None:
        return found
    return replace(found, lookup=_with_arguments(found.lookup))


def _with_arguments(
    lookup: Callable[..., Awaitable[Any]],
) -> Callable[..., Awaitable[Any]]:
    """Return a lookup that receives a step in place of the arguments of the tool."""

    async def look_up(step: Step, *, idempotency_key: str = "") -> Any:
        arguments = cast("Mapping[str, Any]", step.identity["arguments"])
        return await lookup(**arguments, idempotency_key=idempotency_key)

    return look_up


def tool_step(name: str, arguments: Any, live: Any) -> Step:
    """Return the call of a tool."""
    return Step.of({"tool": name, "arguments": arguments}, live)


def require_known(
    tools: Mapping[str, Dependency | None], known: Sequence[str] | set[str]
) -> None:
    """Refuse a dependency of a tool that is not there: its effect would be lost.

    Raises:
        UsageError: `pipeline.declaration.invalid`.
    """
    if missing := sorted({*tools} - {*known}):
        raise UsageError(
            f"The agent has no tool {', '.join(map(repr, missing))}.",
            code="pipeline.declaration.invalid",
            next_step=f"Its tools are {', '.join(sorted(known)) or 'none'}.",
        )
