"""Let an execution of a call start: within the limits of its job and of the fleet.

admit = pause gate -> budgets -> limits of the fleet -> call slot of the worker
        -> intent of an effect
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from piecework.calls.call import Call, CallAttempts
from piecework.calls.fleet_breaker import BreakerRegistry
from piecework.calls.fleet_budgets import JobBudgets, is_priced
from piecework.calls.fleet_limits import FleetLimits
from piecework.calls.pause_gate import PauseGate
from piecework.calls.usage import estimated_tokens
from piecework.dependency import Dependency
from piecework.domain.budget import Amount
from piecework.domain.effect import Effect
from piecework.errors import PieceworkError, TransientError
from piecework.resilience.breaker import (
    Health,
    Permit,
    Rejected,
    breaker_open_error,
    is_rate_limited,
)
from piecework.resilience.limits import (
    Start,
    dependency_paused_error,
    micros,
    quota_exhausted_error,
)

if TYPE_CHECKING:
    from piecework.errors import ErrorEnvelope


@dataclass(frozen=True, slots=True)
class HeldSlot:
    """A call slot that a call has entered; `async with` only leaves it."""

    slots: AbstractAsyncContextManager[None]

    async def __aenter__(self) -> None:
        """`_admit_plain` has entered the slot."""

    async def __aexit__(self, *_: object) -> None:
        """Leave the call slot."""
        await self.slots.__aexit__(None, None, None)


@dataclass(slots=True)
class Admission:
    """What one claim's calls wait for, and what learns from their ends.

    Attributes:
        slots: The call slots of the whole worker.
        breakers: The breakers of the whole worker; None: calls have no breaker.
        limits: The limits that the worker shares with the fleet; None: no limits. They
            learn each rate limit that a dependency answers: a 429 or a throttle of AWS.
            The circuit breaker does not count such an answer. The retry of the call
            waits at least for the Retry-After.
        budgets: The budgets that the job spends from; None: it has none.
        latest_start: Returns the loop time until which a call may wait for quota.
        gate: Keeps calls from starting while the job is paused.
        release_at: Returns the loop time at which a stopping worker interrupts the
            claim; infinite: it does not stop.
    """

    slots: AbstractAsyncContextManager[None]
    clock: Callable[[], float]
    progress: Callable[[], None] = lambda: None
    breakers: BreakerRegistry | None = None
    limits: FleetLimits | None = None
    budgets: JobBudgets | None = None
    latest_start: Callable[[], float] = lambda: inf
    gate: PauseGate = field(default_factory=PauseGate)
    release_at: Callable[[], float] = lambda: inf

    async def admit(
        self, attempts: CallAttempts, *, is_lookup: bool
    ) -> AbstractAsyncContextManager[object]:
        """Wait until an execution may start, and return what it holds until its end.

        A call that waits for its start holds no call slot: other dependencies need it.
        The intent of an effect is written after all waits. So a worker that dies while
        its call waits leaves no doubt. The breakers are read before the intent, so that
        the permit needs no read between the start and the call. A start is not used if
        it is late then, or if the job was paused meanwhile. In a stopping worker, an
        effect that the release may cut off does not start: the next worker starts it.

        Raises:
            PermanentError: `runtime.quota.call_too_large`, `runtime.budget.no_price`.
            TransientError: `runtime.quota.exhausted`, `runtime.dependency.paused`,
                `runtime.budget.reserved`, `runtime.budget.day_reserved`.
        """
        dependency, start, turn = attempts.call.dependency, None, None
        attempts.start = attempts.turn = None
        limiter = None if self.limits is None else self.limits.of(dependency)
        with self.gate.waiting():
            budgets = None if is_lookup else await self.binding_budgets(dependency)
        if limiter is None and attempts.ledger is None and budgets is None:
            return await self._admit_plain(dependency)
        tokens = 0
        if limiter is not None and limiter.limits.tokens_per_minute and not is_lookup:
            tokens = estimated_tokens(dependency, attempts.call.bound)
        latest = None
        while True:
            async with AsyncExitStack() as held:
                with self.gate.waiting():
                    await self._pass_gate(dependency)
                    # All waits of a call together last as long as one may.
                    latest = self.latest_start() if latest is None else latest
                    if budgets is not None:
                        attempts.reservation = await budgets.reserve(
                            attempts.call,
                            latest,
                            waits=not self.gate.always_open,
                        )
                    if limiter is not None:
                        start = await limiter.start(tokens, latest)
                        held.callback(limiter.release)
                        turn = limiter.turn()
                        held.callback(turn.give_back)
                    await held.enter_async_context(self.slots)
                    await self._read_breakers(dependency)
                self.progress()
                # From its intent on a call is in flight: no pause interrupts it.
                if not self._is_late(start) and self._may_start(dependency):
                    intent = await attempts.write_intent()
                    if not (self._is_late(start) or self._may_be_cut_off(dependency)):
                        attempts.limiter, attempts.estimate = limiter, tokens
                        attempts.start, attempts.turn = start, turn
                        return held.pop_all()
                    if intent is not None:
                        await intent.mark_refused(attempts.call.key, sent=False)
            attempts.correct_budgets(Amount())
            if limiter is not None:
                limiter.correct(tokens, 0)

    async def binding_budgets(self, dependency: Dependency) -> JobBudgets | None:
        """Return the budgets that a call spends from; None: it spends from none.

        The read of the breakers, which the call needs anyway, has those of tenants.
        """
        budgets = self.budgets
        if budgets is None or not is_priced(dependency):
            return None
        await self._read_breakers(dependency)
        return budgets if budgets.has_any() else None

    async def _admit_plain(self, dependency: Dependency) -> HeldSlot:
        """Admit a call that needs no quota, budget or intent: a faster path."""
        while True:
            with self.gate.waiting():
                await self._pass_gate(dependency)
                await self.slots.__aenter__()
            if self._may_start(dependency):
                return HeldSlot(self.slots)
            await self.slots.__aexit__(None, None, None)

    async def _pass_gate(self, dependency: Dependency) -> None:
        """Wait while the job is paused, or for the release of a stopping worker.

        Raises:
            TransientError: `runtime.dependency.paused`.
        """
        await self.gate.wait()
        if self._may_be_cut_off(dependency):
            await self.gate.wait_for_release()
        await self._refuse_paused(dependency)

    def _may_start(self, dependency: Dependency) -> bool:
        """Return whether no pause and no release keeps a call from starting."""
        paused = self.gate.is_closed or self._paused(dependency)
        return not paused and not self._may_be_cut_off(dependency)

    def _may_be_cut_off(self, dependency: Dependency) -> bool:
        """Return whether a release may cut an effect off, which is then in doubt."""
        if dependency.effect is not Effect.NON_IDEMPOTENT:
            return False
        ends_at = asyncio.get_running_loop().time() + dependency.timeout_s
        return ends_at > self.release_at()

    def _paused(self, dependency: Dependency) -> str:
        return "" if self.limits is None else self.limits.paused(dependency)

    async def _refuse_paused(self, dependency: Dependency) -> None:
        """Refuse a call to a paused dependency, unless the pause has just ended.

        Raises:
            TransientError: `runtime.dependency.paused`.
        """
        if self._paused(dependency) and self.breakers is not None:
            await self.breakers.refresh()
        if paused := self._paused(dependency):
            raise dependency_paused_error(dependency.name, paused)

    def _is_late(self, start: Start | None) -> bool:
        """Return whether a start cannot be used any more; None: the call needs none."""
        return start is not None and start.is_late(micros(self.clock()))

    async def request_permit(
        self, call: Call, start: Start | None
    ) -> Permit | PieceworkError | None:
        """Return the breaker's permit, or the error of a call that gets no permit.

        None: the call needs no permit. A start that is late after the write of a probe
        is not used.
        """
        if self.breakers is None:
            return None
        dependency = call.dependency
        permit = await self.breakers.request_permit(dependency, call.scope.chunk_name)
        if isinstance(permit, Rejected):
            return self.open_error(dependency.name, permit.seconds)
        if not self._is_late(start):
            return permit
        if permit is not None:
            self.breakers.record_end(dependency, permit, Health.UNKNOWN)
        return quota_exhausted_error(dependency.name, 0.0)

    async def _read_breakers(self, dependency: Dependency) -> None:
        """Read the record of the breakers, unless the process has read it lately."""
        if self.breakers is not None and dependency.breaker is not None:
            await self.breakers.refresh()

    def rejected_for_s(self, call: Call) -> float | None:
        """Return for how many seconds the breaker rejects a call; None: it admits."""
        if self.breakers is None:
            return None
        chunk = call.scope.chunk_name
        return self.breakers.rejected_for_s(call.dependency.name, chunk)

    def open_error(self, name: str, seconds: float) -> TransientError:
        """Return the error of a call that the breaker rejects."""
        known = "" if self.breakers is None else self.breakers.failure_code(name)
        return breaker_open_error(name, seconds, known)

    def note_answer(self, dependency: Dependency) -> None:
        """Let the limits learn that a dependency has answered."""
        if self.limits is not None:
            self.limits.note_answer(dependency)

    def has_answered_since(self, dependency: Dependency, moment: float) -> bool:
        """Return whether this process got an answer since then, in seconds."""
        return self.limits is not None and self.limits.has_answered_since(
            dependency, micros(moment)
        )

    def note_end(
        self,
        call: Call,
        permit: Permit | None,
        health: Health,
        failure: ErrorEnvelope | None,
        started: int,
        failed_at: float = 0.0,
    ) -> None:
        """Let breaker and limits learn the end of an execution, and its start.

        `failed_at`: since when calls of the chunk failed before this claim; or 0.0.
        """
        dependency = call.dependency
        if self.breakers is not None and permit is not None:
            chunk = call.scope.chunk_name
            self.breakers.record_end(
                dependency, permit, health, failure, chunk=chunk, failed_at=failed_at
            )
        if self.limits is not None and failure and is_rate_limited(failure):
            self.limits.note_refusal(dependency, started, failure.retry_after)
