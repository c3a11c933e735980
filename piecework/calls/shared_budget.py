"""One budget of a job or of a tenant, which all workers share."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from math import inf
from random import Random
from typing import TYPE_CHECKING, Final, Protocol

from piecework import telemetry
from piecework.calls.serving_task import (
    RECORD_TIMEOUT_S,
    WRITE_S,
    ServingTask,
    retry_lost_races,
)
from piecework.domain.budget import NOTHING, Amount, Cap
from piecework.domain.moments import iso
from piecework.domain.pause import Pause, PauseCode
from piecework.errors import StoreError
from piecework.resilience.budget import (
    RENEW_BEFORE,
    Budget,
    BudgetKey,
    Reply,
    next_day,
    on_day,
    plan_slice,
)
from piecework.resilience.limits import micros

if TYPE_CHECKING:
    from piecework.domain.refs import JobRef

#: Seconds after which a call that still waits asks again for the pause of its job.
ASK_AGAIN_S: Final = 2.0


class BudgetRecord(Protocol):
    """The fleet's record of each budget."""

    async def read(self, key: BudgetKey) -> Budget:
        """Read a budget; a new one if it has no record."""

    async def write(self, key: BudgetKey, seen: int, budget: Budget) -> Reply:
        """Write a budget unless its `seq` is not the one that was seen."""


#: Pauses a job whose budget is spent, if the budget still has this `seq`.
PauseJob = Callable[["JobRef", Pause, BudgetKey, int], Awaitable[None]]


async def leave_running(job: JobRef, pause: Pause, key: BudgetKey, seen: int) -> None:
    """Pause nothing: the calls of the job only wait."""
    del job, pause, key, seen


@dataclass(slots=True)
class Waiting:
    """A call that waits for room in a budget."""

    amount: Amount
    job: JobRef
    granted: asyncio.Future[None]


@dataclass(slots=True)
class SharedBudget:
    """One budget in one process.

    Attributes:
        requested: The cap of the submit, or of the tenant's setting.
        budget: The record as this process last read or wrote it.
        held: The estimates of the calls in flight.
        unreported: What ended calls used since the last write.
        allowed: The most that `held` and `unreported` may be together.
        arrived: The estimates of the calls that came since the last write.
        number, sent: The number of the last write; and by number, what each write
            reported that may have been applied. The answer of a write may be lost.
        contended: Whether other workers may have written since the last write. Then a
            read comes first, because it costs less than a write that is refused.
        is_gone: Whether the row was deleted with its job.
    """

    key: BudgetKey
    record: BudgetRecord
    worker: str
    clock: Callable[[], float]
    rng: Random
    log: telemetry.Log
    pause_job: PauseJob
    requested: Cap
    budget: Budget = field(default_factory=Budget)
    waiting: deque[Waiting] = field(default_factory=deque)
    held: Amount = NOTHING
    unreported: Amount = NOTHING
    allowed: Amount = NOTHING
    until: int = 0
    arrived: Amount = NOTHING
    number: int = 0
    sent: dict[int, Amount] = field(default_factory=dict)
    contended: bool = True
    is_gone: bool = False
    _write_at: float = -inf
    _asked: dict[JobRef, float] = field(default_factory=dict)
    _task: ServingTask = field(init=False)

    def __post_init__(self) -> None:
        self._task = ServingTask(self.waiting, self._serve)

    @property
    def cap(self) -> Cap:
        """The cap in force, as far as this process knows."""
        return self.requested.changed_by(self.budget.operator)

    @property
    def is_used(self) -> bool:
        """Whether calls wait, or anything is reserved or not reported."""
        return bool(self.waiting or self.held or self.unreported or self.allowed)

    @property
    def is_idle(self) -> bool:
        """Whether no task writes the budget."""
        return self._task.is_idle

    async def reserve(
        self,
        amount: Amount,
        job: JobRef,
        until: float,
        *,
        waits: bool,
    ) -> None:
        """Reserve the estimate of a call; wait for room until a time of the event loop.

        `waits`: False for a call of a compensation, which is only counted.

        Raises:
            TimeoutError: There was no room in time.
        """
        self.arrived += amount
        if not waits or (not self.waiting and self._fits(amount)):
            self.held += amount
            self._task.ensure_running()
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(Waiting(amount, job, granted))
        self._task.ensure_running()
        try:
            async with asyncio.timeout_at(until):
                await granted
        except BaseException:
            if granted.done() and not granted.cancelled() and not granted.exception():
                self.correct(amount, NOTHING)
            granted.cancel()
            raise

    def correct(self, estimated: Amount, used: Amount) -> None:
        """Replace the estimate of a call that has ended by what it used."""
        self.held -= estimated
        self.unreported += used
        self._hand_out()
        self._task.ensure_running()

    def _fits(self, amount: Amount) -> bool:
        """Return whether a call may start within the slice of this worker."""
        if self._now() >= self.until:
            return False
        counted = self.cap.counted
        return (counted(self.held) + counted(self.unreported) + counted(amount)).fits(
            self.allowed
        )

    def _hand_out(self) -> None:
        """Let the calls start that fit, in the order in which they came."""
        while self.waiting:
            first = self.waiting[0]
            if not first.granted.done():
                if not self._fits(first.amount):
                    return
                self.held += first.amount
                first.granted.set_result(None)
            self.waiting.popleft()

    async def _serve(self) -> None:
        """Write while the budget is used."""
        now = asyncio.get_running_loop().time
        while self.is_used:
            self._task.note_look()
            if not self._wants_write():
                await self._task.wait(WRITE_S)
                continue
            if (pause := self._write_at - now()) > 0:
                await asyncio.sleep(pause)
            await self._write()
            self._hand_out()
            await self._ask_for_pauses()

    def _wants_write(self) -> bool:
        """Return whether there is something to reserve, to report or to give back."""
        if self.waiting or self.unreported:
            return True
        is_late = self.until - self._now() <= RENEW_BEFORE
        return is_late if self.held else bool(self.allowed)

    async def report(self) -> None:
        """Write what ended calls used, and give the slice back."""
        await self._task.stop()
        if self.unreported or self.allowed:
            await self._write()

    async def _write(self) -> None:
        """Write the slice of this worker, and note the record as it is then."""
        loop_time, known = asyncio.get_running_loop().time, self.budget.seq
        try:
            async with asyncio.timeout(RECORD_TIMEOUT_S):
                if self.contended:
                    self._note(await self.record.read(self.key))
                if await retry_lost_races(self.rng, self._write_once):
                    self.contended = self.budget.seq > known + 1
        except (StoreError, TimeoutError) as error:
            telemetry.emit(
                self.log,
                "budget.record_unreachable",
                budget=self.key.what,
                error=type(error).__name__,
            )
        self._write_at = loop_time() + WRITE_S * self.rng.uniform(0.9, 1.1)

    async def _write_once(self) -> bool:
        """Write once, unless the row is gone; False: another worker was faster."""
        if self.is_gone:
            self.unreported = NOTHING
            return True
        now, reported = self._now(), self.unreported
        stored = self._current()
        counted = self.cap.counted
        planned = plan_slice(
            stored,
            self.worker,
            spent=reported,
            held=self.held,
            waiting=[w.amount for w in self.waiting if not w.granted.done()],
            ahead=self._expected(),
            now=now,
            number=self.number + 1,
        )
        self.number += 1
        self.sent[self.number] = reported
        mine = planned.slices[self.worker]
        # Until the answer both may be true: the write was applied, or it was not.
        self.allowed = self.allowed.at_most(mine.amount + counted(reported))
        reply = await self.record.write(self.key, stored.seq, planned)
        self._note(reply.budget)
        if reply.ours:
            self.arrived = NOTHING
        return reply.ours

    def _expected(self) -> Amount:
        """Return what the calls until the next write need: as much as since the last.

        Their estimates may be far from what they use.
        """
        if not (self.held or self.waiting):
            return NOTHING
        return self.arrived + self.unreported

    def _current(self) -> Budget:
        """Return the record with the cap that the submit or the setting asked for."""
        budget = replace(self.budget, requested=self.requested)
        return on_day(budget, iso(self.clock())[:10]) if self.key.daily else budget

    def _note(self, budget: Budget) -> None:
        """Take the record, and see which of this worker's writes it has.

        A row that is gone was deleted with its job: a write would restore it.
        """
        self.is_gone = bool(self.budget.seq and not budget.seq)
        if self.is_gone:
            self.allowed = NOTHING
            return
        known, self.budget = self.budget, budget
        mine = budget.slices.get(self.worker)
        if known.seq and budget.recounts != known.recounts:
            # The record of the calls has what ended calls used.
            self.unreported, self.sent = NOTHING, {}
        elif mine is not None and mine.number in self.sent:
            self.unreported -= self.sent[mine.number]
            self.sent = {n: a for n, a in self.sent.items() if n > mine.number}
        self.allowed = NOTHING if mine is None else mine.amount
        self.until = 0 if mine is None else mine.until

    async def _ask_for_pauses(self) -> None:
        """Pause the jobs whose calls wait although nothing in the fleet is in flight.

        A call that ends may give back a part of its estimate. So while any call is in
        flight, the budget is not known to be spent.
        """
        now, loop_time = self._now(), asyncio.get_running_loop().time()
        budget = self._current()
        idle = not (self.held or self.unreported or self.allowed)
        if not self.waiting or not idle or budget.reserved(now, without=self.worker):
            return
        first = budget.cap.counted(self.waiting[0].amount)
        room = budget.room(now, without=self.worker)
        if first.fits(room):
            return  # it came while the slice was written
        unit = "usd" if first.nano_usd > room.nano_usd else "tokens"
        text = self._spent_text(budget)
        until = next_day(self.clock()) if self.key.daily else ""
        pause = Pause(PauseCode.BUDGET, text, self.worker, until=until, unit=unit)
        for job in {call.job for call in self.waiting if not call.granted.done()}:
            if self._asked.get(job, -inf) <= loop_time:
                self._asked[job] = loop_time + ASK_AGAIN_S
                await self.pause_job(job, pause, self.key, budget.seq)

    def _spent_text(self, budget: Budget) -> str:
        """Return in words that the next call does not fit."""
        cap, uncertain = budget.cap, budget.uncertain(self._now())
        lost = f", lost workers may have spent {cap.text_of(uncertain)} more"
        return (
            f"{self.key.what}: {cap.text_of(budget.spent)} of {cap.text()} are spent"
            f"{lost if uncertain else ''}, and the next call may need "
            f"{cap.text_of(self.waiting[0].amount)}"
        )

    def _now(self) -> int:
        return micros(self.clock())


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one call has reserved."""

    budgets: tuple[SharedBudget, ...] = ()
    estimate: Amount = NOTHING

    def correct(self, used: Amount) -> None:
        """Replace the estimate by what was used."""
        for budget in self.budgets:
            budget.correct(self.estimate, used)
