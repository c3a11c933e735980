"""The calls of a stage in a child, as its worker executes them.

If a child dies, its attempts are cancelled, as those of a dead worker are. The next
attempt of the chunk finds out the ends of their effects.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json

from piecework.dependency import TAKEN, Dependency, Fallback, Usage
from piecework.domain.effect import Effect
from piecework.domain.identity import declare_text
from piecework_worker.isolation.messages import (
    AnsweredAttemptError,
    Attempt,
    AttemptError,
    AttemptResult,
    BatchedRow,
    CancelAttempt,
    DependencySpec,
    Estimate,
    FallbackSpec,
)
from piecework_worker.isolation.process import Child


async def cut_off() -> None:
    """Cancel the task of a call whose function has no end: nothing failed."""
    if (task := asyncio.current_task()) is not None:
        task.cancel()
    await asyncio.sleep(0)


@dataclass(slots=True)
class ChildAttempts:
    """Runs functions in a child.

    Attributes:
        draining: Returns the effects in flight that are drained.
        stage_cancelled: The stage is cancelled; its effects in flight are still
            drained.
        death_reason: How the child died.
    """

    child: Child
    draining: Callable[[], list[asyncio.Task[Any]]] = list
    stage_cancelled: bool = False
    death_reason: str = ""
    _under_way: dict[int, asyncio.Future[AttemptResult]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def run(
        self, call: int, key: str, *, lookup: bool = False, position: int = 0
    ) -> tuple[Any, Usage | None]:
        """Run a function in the child; return its value, and what it used if known.

        If this call is cancelled, it returns only after the function has ended.

        Raises:
            AttemptError: The error that the function raised.
            CancelledError: The child died.
        """
        if self.death_reason:
            await cut_off()
        number = next(self._numbers)
        future = asyncio.get_running_loop().create_future()
        self._under_way[number] = future
        self.child.channel.send(
            Attempt(call, number, key, lookup, position, TAKEN.get())
        )
        try:
            done = await asyncio.shield(future)
        except asyncio.CancelledError:
            await self._cancel(number, future)
            if future.cancelled():
                await cut_off()
            raise
        finally:
            del self._under_way[number]
        if done.failure is not None:
            error = AnsweredAttemptError if done.has_read_answer else AttemptError
            raise error(done.failure, number, done.usage, done.refused)
        if done.value is None:
            await cut_off()
        return from_json(done.value), done.usage

    async def _cancel(
        self, number: int, attempt: asyncio.Future[AttemptResult]
    ) -> None:
        """Cancel an attempt; once its stage is cancelled, kill the child instead.

        The child goes on while it drains effects. A second cancellation repeats the
        request and still waits. The child runs other stages later, and no attempt of
        this one may be left in it.
        """
        while not attempt.done():
            draining = self.draining() if self.stage_cancelled else []
            if self.stage_cancelled and not draining:
                self.child.kill()
            self.child.channel.send(CancelAttempt(number))
            with suppress(asyncio.CancelledError):
                await asyncio.wait(
                    [attempt, *draining], return_when=asyncio.FIRST_COMPLETED
                )

    def resolve(self, message: AttemptResult) -> None:
        """Record the result of an attempt."""
        future = self._under_way.get(message.number)
        if future is not None and not future.done():
            future.set_result(message)

    def abandon_all(self, how: str) -> None:
        """Cancel all attempts: the child died and will send no result."""
        self.death_reason = how
        for future in self._under_way.values():
            future.cancel()

    def __bool__(self) -> bool:
        """Return whether any attempt is in flight."""
        return bool(self._under_way)

    async def wait_until_idle(self) -> None:
        """Wait until no attempt is in flight or about to be retried."""
        while self._under_way:
            await asyncio.wait(list(self._under_way.values()))
            await asyncio.sleep(0)  # the task that awaited it runs first


@dataclass(frozen=True, slots=True)
class RemoteCall:
    """Represents a call of the child in the worker."""

    attempts: ChildAttempts
    call: int

    def function(self, qualname: str, text: str, position: int = 0) -> RemoteFunction:
        """Return a function of the call's chain; the text stands for it in keys."""
        remote = RemoteFunction(qualname, self, position)
        # The child has compared the functions themselves.
        return declare_text(remote, text, text)

    def dependency(
        self,
        spec: DependencySpec,
        function: RemoteFunction,
        estimates: Sequence[Estimate] = (),
        position: int = 0,
        rows: Sequence[BatchedRow | None] = (),
    ) -> Dependency:
        """Return a dependency equal to the one in the child."""
        chain = enumerate(spec.fallback, 1)
        tokens, usd = estimates[position] if estimates else (0, None)
        row = rows[position] if rows else None
        further = (estimates, rows)
        return Dependency(
            name=spec.name,
            retry=spec.retry,
            effect=spec.effect,
            layer=spec.layer,
            timeout=spec.timeout,
            lookup=function.look_up if spec.effect is Effect.LOOKUP else None,
            fallback=[self.fallback(each, place, *further) for place, each in chain],
            fallback_codes=spec.fallback_codes,
            cache_ttl_s=spec.cache_ttl_s,
            key_ttl_s=spec.key_ttl_s,
            provider=spec.provider,
            model=spec.model,
            version=spec.version,
            breaker=spec.breaker,
            limits=spec.limits,
            adaptive_rate=spec.adaptive_rate,
            by=spec.by,
            usage=function.usage_of if spec.has_usage else None,
            record_calls=spec.record_calls,
            lane=spec.lane,
            batch=None if row is None else RemoteBatches(row),
            # None is refused: the estimate failed in the child.
            estimate=lambda *_, **__: tokens,  # type: ignore[arg-type]
            estimate_usd=None if usd is None else lambda *_, **__: usd,
        )

    def fallback(
        self,
        further: FallbackSpec,
        position: int,
        estimates: Sequence[Estimate],
        rows: Sequence[BatchedRow | None],
    ) -> Fallback:
        """Return a fallback of the chain."""
        function = self.function(further.function, further.text, position)
        if further.spec is None:
            return Fallback(None, function.without_dependency())
        dependency = self.dependency(further.spec, function, estimates, position, rows)
        return Fallback(dependency, function)


@dataclass(frozen=True, slots=True)
class RemoteBatches:
    """Represents how the model of one call of the child is asked in batches."""

    row: BatchedRow

    @property
    def key(self) -> str:
        """The key of the model."""
        return self.row.key

    @property
    def provider(self) -> None:
        """None: a worker that has loaded the model asks its provider."""

    @property
    def most_row_bytes(self) -> int:
        """The most bytes of a row."""
        return self.row.most_bytes

    def row_of(self, *_: Any, **__: Any) -> tuple[str, int]:
        """Return the row that the child has made."""
        return self.row.body, self.row.size


def _answer() -> Any: ...


def _call(*, idempotency_key: str) -> Any: ...


class RemoteFunction:
    """Represents a function of the child, with its name.

    Its return value is JSON already: `_answer` is annotated with that type.
    """

    __wrapped__ = staticmethod(_answer)
    __signature__ = inspect.signature(_call)
    #: The JSON schema of the answer, which the child knows; empty: it has none.
    __answer_schema__ = ""
    #: The arguments as JSON, which the child knows, too; empty: they are not kept.
    __arguments_text__ = ""

    def __init__(self, qualname: str, remote: RemoteCall, position: int) -> None:
        """Take the name that the call's key contains."""
        self.__qualname__ = qualname
        self.__name__ = qualname.rpartition(".")[2]
        self._remote, self._position = remote, position
        #: What the last attempt used, if known; no attempt: an answer of the journal.
        self._used: Usage | None = Usage()

    def usage_of(self, _: Any) -> Usage:
        """Return what the last attempt used; nothing for an answer from the journal.

        Raises:
            ValueError: The function of the child that computes it failed.
        """
        if self._used is None:
            message = "the child has no usage of this answer"
            raise ValueError(message)
        return self._used

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
        answer, self._used = await remote.attempts.run(
            remote.call, key, lookup=lookup, position=self._position
        )
        return answer
