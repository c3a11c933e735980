"""An outside service that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from piecework.calls.call import CallScope
from piecework.calls.caller import Caller
from piecework.dependency import Dependency
from piecework.domain import values
from piecework.domain.effect import Effect
from piecework.domain.identity import declare_text
from piecework.resilience.retry import RetryPolicy, answer_of
from tests.unit.piecework.fakes import SCOPE

PURE = Dependency("model", retry=RetryPolicy(attempts=3, base=1.0))
KEYED = Dependency("bank", effect=Effect.PROVIDER_IDEMPOTENT)
ONCE = Dependency("fax", effect=Effect.NON_IDEMPOTENT)


class RefusedError(Exception):
    """As aiohttp raises it."""

    def __init__(self, status: int) -> None:
        super().__init__(f"{status}")
        self.status = status
        self.headers: dict[str, str] = {}


class Provider:
    """Answers, or fails with the given errors first; keeps what it was asked."""

    def __init__(self, *errors: BaseException, answer: Any = "answer") -> None:
        self.errors = list(errors)
        self.answer = answer
        self.keys: list[str] = []
        self.args: list[tuple[Any, ...]] = []

    @property
    def ask(self) -> Callable[..., Awaitable[Any]]:
        """The same function in all keys, whichever provider it reaches."""

        async def ask(*args: Any, idempotency_key: str, **kwargs: Any) -> Any:
            return await self.answer_once(
                *args, idempotency_key=idempotency_key, **kwargs
            )

        return declare_text(ask, "ask", "ask")

    async def answer_once(self, *args: Any, idempotency_key: str, **kwargs: Any) -> Any:
        self.keys.append(idempotency_key)
        self.args.append((*args, kwargs))
        await asyncio.sleep(0)
        if self.errors:
            raise self.errors.pop(0)
        return self.answer


async def call(
    made_by: Any,
    dependency: Dependency,
    provider: Provider,
    *args: Any,
    scope: CallScope = SCOPE,
) -> Any:
    return await answer(made_by, dependency, provider.ask, args, scope=scope)


async def answer(
    made_by: Caller,
    dependency: Dependency,
    function: Callable[..., Awaitable[Any]],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    scope: CallScope = SCOPE,
) -> Any:
    """Return the answer of a call, or raise its error, as `ctx.call` does."""
    end = made_by.call(scope, dependency, function, args, kwargs or {})
    return values.decode(function, answer_of(await end))
