"""A shop outside, and clients that do an operation there once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from piecework import Dependency, RetryPolicy, named_call
from piecework.calls.call import CallScope
from piecework.standalone import ByKey, MemoryIdempotency, idempotent
from tests.unit.piecework import provider
from tests.unit.piecework.fakes import caller

DAY = 86_400.0


@dataclass
class Shop:
    """Takes orders; keeps what it was asked, and fails first with the given errors."""

    now: float = 1_700_000_000.0
    errors: list[Exception] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)  # operation, key

    async def take(self, operation: str, key: str, **order: Any) -> str:
        self.asked.append((operation, key))
        if self.errors:
            raise self.errors.pop(0)
        return f"{operation} {json.dumps(order, sort_keys=True)} #{len(self.asked)}"

    @property
    def keys(self) -> set[str]:
        return {key for _, key in self.asked}


class Client(Protocol):
    """A client that asks the shop in a customer's name."""

    async def do(self, user: str, task: str, operation: str, **order: Any) -> str: ...


Open = Callable[[Shop], Client]


class Standalone:
    """Ours, around a plain function: `idempotent` with its strategy of keys."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.store = MemoryIdempotency(clock=lambda: shop.now)

    async def do(self, user: str, task: str, operation: str, **order: Any) -> str:
        async def ask(order: dict[str, Any], *, idempotency_key: str = "") -> str:
            return await self.shop.take(operation, idempotency_key, **order)

        scope = f"{user}/{task}"
        once = idempotent(self.store, scope=scope, operation=operation, by=ByKey())(ask)
        return await once(order)


class InPipeline:
    """Ours, in a stage: `ctx.call`, with the journal of the chunk."""

    def __init__(self, shop: Shop) -> None:
        self.shop, self.caller = shop, caller()

    async def do(self, user: str, task: str, operation: str, **order: Any) -> str:
        async def ask(*, idempotency_key: str, **order: Any) -> str:
            return await self.shop.take(operation, idempotency_key, **order)

        ask = named_call(operation)(ask)
        self.caller.functions.by_key.clear()  # each request is a run of the stage
        once = RetryPolicy(attempts=1)  # the test retries
        shop = Dependency("shop", retry=once, breaker=None)
        scope = CallScope(user, task, 0, "order", "shop")
        return str(
            await provider.answer(self.caller, shop, ask, kwargs=order, scope=scope)
        )
