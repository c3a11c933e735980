"""A pending call of a stage in a child, with the parts that cannot be sent."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from piecework import values
from piecework.dependency import Dependency
from piecework.falling_back import call_function
from workers.isolation.messages import Attempt, CallResult


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call whose result the stage awaits."""

    dependency: Dependency
    function: Callable[..., Awaitable[Any]]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    context: contextvars.Context
    answer: asyncio.Future[CallResult]

    async def run(self, request: Attempt) -> str:
        """Run an attempt that the worker requests; return its value as JSON."""
        if request.position == 0:
            return await self.invoke(request, self.dependency, self.function)
        further = self.dependency.fallback[request.position - 1]
        if further.dependency is not None:
            return await self.invoke(request, further.dependency, further.function)
        value = await call_function(further, *self.args, **self.kwargs)
        return values.encode(further.function, value)

    async def invoke(
        self,
        request: Attempt,
        dependency: Dependency,
        function: Callable[..., Awaitable[Any]],
    ) -> str:
        """Call a dependency's function, or look up the result of an earlier attempt."""
        pending = (
            dependency.lookup if request.lookup and dependency.lookup else function
        )
        value = await pending(*self.args, **self.kwargs, idempotency_key=request.key)
        missing = request.lookup and value is None
        return "null" if missing else values.encode(function, value)

    def dependency_at(self, position: int) -> Dependency:
        """Return the dependency at a position of the fallback chain, for its errors."""
        further = self.dependency.fallback[position - 1] if position else None
        return (further and further.dependency) or self.dependency
