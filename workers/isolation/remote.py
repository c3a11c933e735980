"""A child's call for the worker's Caller: its functions run in the child."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from piecework.dependency import Dependency, Effect, Fallback
from workers.isolation.attempts import ChildAttempts
from workers.isolation.messages import DependencySpec, FallbackSpec


@dataclass(frozen=True, slots=True)
class RemoteCall:
    """Represents a call of the child in the worker."""

    attempts: ChildAttempts
    call: int

    def function(self, qualname: str, position: int = 0) -> RemoteFunction:
        """Return a function of the call's chain."""
        return RemoteFunction(qualname, self, position)

    def dependency(self, spec: DependencySpec, function: RemoteFunction) -> Dependency:
        """Return a dependency equal to the one in the child."""
        chain = enumerate(spec.fallback, 1)
        return Dependency(
            name=spec.name,
            retry=spec.retry,
            effect=spec.effect,
            layer=spec.layer,
            timeout=spec.timeout,
            lookup=function.look_up if spec.effect is Effect.LOOKUP else None,
            fallback=[self.fallback(further, position) for position, further in chain],
            cache_ttl_s=spec.cache_ttl_s,
            key_ttl_s=spec.key_ttl_s,
            breaker=spec.breaker,
        )

    def fallback(self, further: FallbackSpec, position: int) -> Fallback:
        """Return a fallback of the chain."""
        function = self.function(further.function, position)
        if further.spec is None:
            return Fallback(None, function.without_dependency())
        return Fallback(self.dependency(further.spec, function), function)


def _answer() -> Any: ...


class RemoteFunction:
    """Represents a function of the child, with its name.

    Its return value is JSON already: `_answer` is annotated with that type.
    """

    __wrapped__ = staticmethod(_answer)

    def __init__(self, qualname: str, remote: RemoteCall, position: int) -> None:
        """Take the name that the call's key contains."""
        self.__qualname__ = qualname
        self.__name__ = qualname.rpartition(".")[2]
        self._remote, self._position = remote, position

    async def __call__(self, *_: Any, idempotency_key: str, **__: Any) -> Any:
        """Call the function in the child, which has the arguments."""
        return await self._call(idempotency_key)

    async def look_up(self, *_: Any, idempotency_key: str, **__: Any) -> Any:
        """Call the dependency's `lookup` in the child."""
        return await self._call(idempotency_key, lookup=True)

    def without_dependency(self) -> Any:
        """Return the function of a fallback that calls no dependency and has no key."""

        async def without_dependency(*_: Any, **__: Any) -> Any:
            return await self._call("")

        without_dependency.__name__ = self.__name__
        return without_dependency

    async def _call(self, key: str, *, lookup: bool = False) -> Any:
        remote = self._remote
        return await remote.attempts.run(
            remote.call, key, lookup=lookup, position=self._position
        )
