"""Plan what each worker may spend of a budget. Pure: no clock.

    stored budget + what this worker spent and wants   ->   the next stored budget

A budget is one row for the whole fleet. It has the cap, what is spent, and a slice for
each worker that makes priced calls. A slice covers the calls in flight and those that
come next. So what is spent and all slices together never exceed the cap, unless calls
use more than their estimates.

The slice of a worker that died expires and stays counted: it may be spent. The record
of the calls, read once the job is paused, replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from piecework.domain import keys
from piecework.domain.budget import NO_CAP, NOTHING, Amount, Cap
from piecework.domain.moments import MICROS, iso
from piecework.errors import PermanentError, TransientError

if TYPE_CHECKING:
    from piecework.domain.refs import JobRef

#: The codes of a call that waited too long for room: of its job, of its tenant's day.
RESERVED_CODE: Final = "runtime.budget.reserved"
DAY_RESERVED_CODE: Final = "runtime.budget.day_reserved"
#: The code of a call without a price in a job with a budget in dollars.
NO_PRICE_CODE: Final = "runtime.budget.no_price"
DAY_S: Final = 86_400
#: Microseconds for which a slice lasts without a write of its worker. And microseconds
#: before its end at which the worker renews it.
SLICE_LASTS: Final = 15 * MICROS
RENEW_BEFORE: Final = 8 * MICROS
#: Expired slices that are kept one by one; the oldest of more are added up.
MOST_EXPIRED: Final = 20
#: The name of the slice that adds expired ones up; no worker has it.
EARLIER: Final = "(earlier)"


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of a budget that one worker may spend until a time.

    Attributes:
        until: Microseconds since 1970. After it, the slice counts as spent.
        number: Which write of its worker stored it: a worker that got no answer sees
            whether its write was applied.
    """

    amount: Amount
    until: int
    number: int = 0


@dataclass(frozen=True, slots=True)
class Budget:
    """The stored state of a budget.

    Attributes:
        seq: Rises with each write.
        requested: The cap of the submit, or of the tenant's setting.
        operator: The cap that an operator has set since; it replaces the requested one.
        spent: What answered calls used, as their workers reported it.
        slices: What each worker may spend, by its name.
        recounts: How often `spent` was read from the record of the calls.
        recounted_pause: The time of the pause in which that was done last.
        day: The day of a daily budget, such as `2026-11-24`; empty: not a daily one.
    """

    seq: int = 0
    requested: Cap = NO_CAP
    operator: Cap = NO_CAP
    spent: Amount = NOTHING
    slices: Mapping[str, Slice] = field(default_factory=dict)
    recounts: int = 0
    recounted_pause: str = ""
    day: str = ""

    @property
    def cap(self) -> Cap:
        """The cap in force."""
        return self.requested.changed_by(self.operator)

    def reserved(self, now: int, without: str = "") -> Amount:
        """Return the slices that are valid, without that of one worker."""
        return self._sum(now, valid=True, without=without)

    def uncertain(self, now: int, without: str = "") -> Amount:
        """Return the slices of workers that died: what they may have spent."""
        return self._sum(now, valid=False, without=without)

    def _sum(self, now: int, *, valid: bool, without: str) -> Amount:
        total = NOTHING
        for worker, each in self.slices.items():
            if worker != without and (each.until > now) is valid:
                total += each.amount
        return total

    def room(self, now: int, without: str = "") -> Amount:
        """Return what is not spent, reserved or uncertain, of the kinds with a cap."""
        others = self.reserved(now, without) + self.uncertain(now, without)
        return self.cap.less(self.spent + others)

    def is_spent(self, now: int) -> bool:
        """Return whether nothing is left of a kind with a cap."""
        left = self.room(now)
        return (self.cap.tokens is not None and left.tokens <= 0) or (
            self.cap.nano_usd is not None and left.nano_usd <= 0
        )


def plan_slice(
    budget: Budget,
    worker: str,
    *,
    spent: Amount,
    held: Amount,
    waiting: Iterable[Amount],
    ahead: Amount,
    now: int,
    number: int,
) -> Budget:
    """Return the budget after a worker's write.

    Args:
        budget: As it was read.
        worker: The worker that writes.
        spent: What its calls used that have ended since its last write.
        held: The estimates of its calls in flight; they stay reserved in any case.
        waiting: The estimates of its calls that wait, in order. Those from the first
            one on that does not fit receive nothing.
        ahead: What the calls that come next are expected to need. They get at most half
            of this worker's part of the room.
        now: Microseconds since 1970.
        number: The number of the worker's write.
    """
    budget = replace(budget, spent=budget.spent + spent)
    cap, room = budget.cap, budget.room(now, without=worker)
    room -= cap.counted(held)
    amount, all_fit = cap.counted(held), True
    for each in map(cap.counted, waiting):
        if not each.fits(room):
            all_fit = False
            break
        amount, room = amount + each, room - each
    if all_fit:
        others = sum(s.until > now for w, s in budget.slices.items() if w != worker)
        parts = 2 * (1 + others)
        share = Amount(room.tokens // parts, room.nano_usd // parts)
        amount += cap.counted(ahead).at_most(share)
    slices = {**budget.slices, worker: Slice(amount, now + SLICE_LASTS, number)}
    kept = tidied(slices, now)
    return replace(budget, slices=kept, seq=budget.seq + 1)


def tidied(slices: Mapping[str, Slice], now: int) -> dict[str, Slice]:
    """Return the slices without empty expired ones; add up the oldest of too many."""
    kept = {w: s for w, s in slices.items() if s.amount or s.until > now}
    expired = sorted((s.until, w) for w, s in kept.items() if s.until <= now)
    if len(expired) <= MOST_EXPIRED:
        return kept
    total = NOTHING
    for _, worker in expired[: len(expired) - MOST_EXPIRED + 1]:
        total += kept.pop(worker).amount
    return {**kept, EARLIER: Slice(total, 0)}


def recounted(
    budget: Budget, paid: Amount, uncertain: Amount, now: int, pause: str
) -> Budget:
    """Return the budget with what was paid by the record of the calls.

    `uncertain`: what lost workers may have paid for without a record; it replaces the
    expired slices. `pause`: the time of the job's pause, which is recounted once.
    """
    kept = {w: s for w, s in budget.slices.items() if s.until > now}
    if left := budget.uncertain(now).at_most(uncertain):
        kept[EARLIER] = Slice(left, 0)
    return replace(
        budget,
        spent=paid,
        slices=kept,
        seq=budget.seq + 1,
        recounts=budget.recounts + 1,
        recounted_pause=pause,
    )


def on_day(budget: Budget, day: str) -> Budget:
    """Return a daily budget on a day: nothing of it is spent on a new one.

    A worker whose clock is behind counts on the later day.
    """
    if budget.day >= day:
        return budget
    return replace(budget, day=day, spent=NOTHING, slices={})


@dataclass(frozen=True, slots=True)
class BudgetKey:
    """The row of a budget, and what messages call it; `daily`: it begins each day."""

    pk: str
    sk: str
    what: str
    daily: bool = False


def key_of_tenant(tenant: str) -> BudgetKey:
    """Return the row of a tenant's daily budget."""
    what = f"the daily budget of tenant {tenant}"
    return BudgetKey(keys.BREAKERS_PK, keys.budget_sk(tenant), what, daily=True)


def key_of_job(job: JobRef) -> BudgetKey:
    """Return the row of a job's budget."""
    return BudgetKey(job.pk, keys.BUDGET_SK, f"the budget of job {job.job}")


@dataclass(frozen=True, slots=True)
class Reply:
    """The stored budget after a write; `ours`: the write was applied."""

    budget: Budget
    ours: bool


def next_day(now: float) -> str:
    """Return when the next day begins in UTC, ISO 8601."""
    return iso((now // DAY_S + 1) * DAY_S)


def reserved_error(dependency: str, key: BudgetKey) -> TransientError:
    """Return the error of a call that waited too long for room in a budget."""
    return TransientError(
        f"The rest of {key.what} is too small, or reserved by calls in flight.",
        code=DAY_RESERVED_CODE if key.daily else RESERVED_CODE,
        retry_after=5.0,
        dependency=dependency,
    )


def no_price_error(dependency: str) -> PermanentError:
    """Return the error of a call whose price is not known."""
    message = (
        f"The job has a budget in dollars, and {dependency} declares no price of a call"
    )
    return PermanentError(f"{message}.", code=NO_PRICE_CODE)
