"""A call of a child's stage as the Caller needs it: its functions are the child's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from piecework.dependency import Dependency, Effect, Fallback
from workers.isolation.attempts import Attempts
from workers.isolation.messages import Further, Outside


@dataclass(frozen=True, slots=True)
class Remote:
    """Stands for what a child was given to call with."""

    attempts: Attempts
    call: int

    def function(self, qualname: str, place: int = 0) -> RemoteFunction:
        """Return one of the functions of the call's chain."""
        return RemoteFunction(qualname, self, place)

    def dependency(self, outside: Outside, function: RemoteFunction) -> Dependency:
        """Return a dependency as it is in the child."""
        chain = enumerate(outside.fallback, 1)
        return Dependency(
            name=outside.name,
            retry=outside.retry,
            effect=outside.effect,
            layer=outside.layer,
            timeout=outside.timeout,
            lookup=function.look_up if outside.effect is Effect.LOOKUP else None,
            fallback=[self.fallback(further, place) for place, further in chain],
            cache_ttl_s=outside.cache_ttl_s,
            key_ttl_s=outside.key_ttl_s,
            breaker=outside.breaker,
        )

    def fallback(self, further: Further, place: int) -> Fallback:
        """Return one further down the chain."""
        function = self.function(further.function, place)
        if further.outside is None:
            return Fallback(None, function.by_itself())
        return Fallback(self.dependency(further.outside, function), function)


def _answer() -> Any: ...


class RemoteFunction:
    """Stands for a function of the child's: by its name, and by what calling it does.

    What it returns is JSON already, which is what `_answer` is annotated with.
    """

    __wrapped__ = staticmethod(_answer)

    def __init__(self, qualname: str, remote: Remote, place: int) -> None:
        """Take the name under which calls are remembered."""
        self.__qualname__ = qualname
        self.__name__ = qualname.rpartition(".")[2]
        self._remote, self._place = remote, place

    async def __call__(self, *_: Any, idempotency_key: str, **__: Any) -> Any:
        """Call it in the child, which has the arguments."""
        return await self._make(idempotency_key)

    async def look_up(self, *_: Any, idempotency_key: str, **__: Any) -> Any:
        """Call the dependency's `lookup` in the child."""
        return await self._make(idempotency_key, lookup=True)

    def by_itself(self) -> Any:
        """Return it as a function that asks nobody, and so has no key."""

        async def by_itself(*_: Any, **__: Any) -> Any:
            return await self._make("")

        by_itself.__name__ = self.__name__
        return by_itself

    async def _make(self, key: str, *, lookup: bool = False) -> Any:
        remote = self._remote
        return await remote.attempts.make(
            remote.call, key, lookup=lookup, place=self._place
        )
