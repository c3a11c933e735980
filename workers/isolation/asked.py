"""A call that a stage in a child waits for, with what cannot cross to the worker."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from piecework import values
from piecework.dependency import Dependency
from piecework.falling_back import by_itself
from workers.isolation.messages import Answered, Attempt


@dataclass(frozen=True, slots=True)
class Asked:
    """A call, and whoever waits for its answer."""

    dependency: Dependency
    function: Callable[..., Awaitable[Any]]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    context: contextvars.Context
    answer: asyncio.Future[Answered]

    async def carry_out(self, order: Attempt) -> str:
        """Call a function as the worker asks for it; return its value as JSON."""
        if order.place == 0:
            return await self.ask(order, self.dependency, self.function)
        further = self.dependency.fallback[order.place - 1]
        if further.dependency is not None:
            return await self.ask(order, further.dependency, further.function)
        value = await by_itself(further, *self.args, **self.kwargs)
        return values.encode(further.function, value)

    async def ask(
        self,
        order: Attempt,
        dependency: Dependency,
        function: Callable[..., Awaitable[Any]],
    ) -> str:
        """Ask a dependency, or look up what an earlier attempt brought about."""
        asked = dependency.lookup if order.lookup and dependency.lookup else function
        value = await asked(*self.args, **self.kwargs, idempotency_key=order.key)
        missing = order.lookup and value is None
        return "null" if missing else values.encode(function, value)

    def asks(self, place: int) -> Dependency:
        """Return whose call it is at a place of the chain, for its errors."""
        further = self.dependency.fallback[place - 1] if place else None
        return (further and further.dependency) or self.dependency
