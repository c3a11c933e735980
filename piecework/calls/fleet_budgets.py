"""The budgets that the jobs of one process spend from, shared with the fleet.

    reserve   a priced call waits until its estimate is reserved in each budget
    correct   the call has ended: its usage replaces its estimate

A worker reserves a slice of each budget, about once a second in one write for all its
calls. A call that fits into the slice costs no request. A budget is spent if a call
does not fit while the fleet has no call in flight. Then its job is paused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from piecework import telemetry
from piecework.calls.shared_budget import (
    BudgetRecord,
    PauseJob,
    Reservation,
    SharedBudget,
    leave_running,
)
from piecework.calls.usage import estimated_tokens, estimated_usd
from piecework.domain.budget import NANO, NO_CAP, NOTHING, Amount, Cap
from piecework.resilience.budget import (
    BudgetKey,
    key_of_job,
    key_of_tenant,
    no_price_error,
    reserved_error,
)

if TYPE_CHECKING:
    from piecework.calls.call import Call
    from piecework.dependency import Dependency
    from piecework.domain.job import Job
    from piecework.domain.refs import JobRef


@dataclass(slots=True)
class FleetBudgets:
    """The budgets of one process.

    Attributes:
        worker: The name of this process among the slices.
        pause_job: Pauses a job whose budget is spent.
    """

    record: BudgetRecord
    worker: str
    clock: Callable[[], float]
    rng: Random
    log: telemetry.Log
    pause_job: PauseJob = leave_running
    by_key: dict[BudgetKey, SharedBudget] = field(default_factory=dict)
    tenants: dict[str, Cap] = field(default_factory=dict)

    def adopt(self, tenant: str, cap: Cap) -> None:
        """Take the daily budget of a tenant that was read with the breakers."""
        self.tenants[tenant] = cap

    def of_job(self, job: Job) -> JobBudgets:
        """Return the budgets that the calls of a job spend from."""
        return JobBudgets(self, job.ref, job.budget, job.payer)

    def shared(self, key: BudgetKey, requested: Cap) -> SharedBudget:
        """Return a budget of this process."""
        found = self.by_key.get(key)
        if found is None:
            self.forget_idle()
            found = self.by_key[key] = SharedBudget(
                key,
                self.record,
                self.worker,
                self.clock,
                self.rng,
                self.log,
                self.pause_job,
                requested,
                number=self.rng.getrandbits(30),
            )
        return found

    async def close(self) -> None:
        """Write what is not reported yet; a stopping worker has no call in flight."""
        await asyncio.gather(*(each.report() for each in self.by_key.values()))

    def forget_idle(self) -> None:
        """Forget the budgets that nothing of this process uses any more."""
        for key, each in list(self.by_key.items()):
            if each.is_idle and not each.is_used:
                del self.by_key[key]


@dataclass(frozen=True, slots=True)
class JobBudgets:
    """The budgets of one job in one process.

    Attributes:
        payer: The job whose budget its calls spend: the one at the top, or itself.
    """

    fleet: FleetBudgets
    job: JobRef
    requested: Cap
    payer: JobRef

    def has_any(self) -> bool:
        """Return whether the calls of the job spend from any budget now."""
        return bool(self.requested or self.fleet.tenants.get(self.job.tenant))

    def of_call(self) -> Iterator[tuple[SharedBudget, JobRef]]:
        """Yield the budgets that a call spends from, and the job that each pauses.

        Reserve each before the next is taken. An idle budget may be forgotten, and a
        second one with the same key would grant the whole cap again.
        """
        if self.requested:
            yield self.fleet.shared(key_of_job(self.payer), self.requested), self.payer
        if self.fleet.tenants.get(self.job.tenant):
            yield self.fleet.shared(key_of_tenant(self.job.tenant), NO_CAP), self.job

    async def reserve(self, call: Call, until: float, *, waits: bool) -> Reservation:
        """Reserve the estimate of a call in each budget.

        Raises:
            TransientError: `runtime.budget.reserved`, `runtime.budget.day_reserved`:
                there was no room in time.
            PermanentError: `runtime.budget.no_price`.
        """
        dependency = call.dependency
        daily = self.fleet.tenants.get(self.job.tenant, NO_CAP)
        caps = [cap.nano_usd is not None for cap in (self.requested, daily)]
        estimate = estimate_of(call, in_dollars=any(caps), needs_price=caps[0])
        reserved: list[SharedBudget] = []
        try:
            for each, job in self.of_call():
                await each.reserve(estimate, job, until, waits=waits)
                reserved.append(each)
        except BaseException as error:
            Reservation(tuple(reserved), estimate).correct(NOTHING)
            if isinstance(error, TimeoutError):
                raise reserved_error(dependency.name, each.key) from None
            raise
        return Reservation(tuple(reserved), estimate)


def is_priced(dependency: Dependency) -> bool:
    """Return whether the calls of a dependency spend from a budget."""
    return dependency.layer == "llm" or dependency.usage is not None


def estimate_of(call: Call, *, in_dollars: bool, needs_price: bool) -> Amount:
    """Return what a call is estimated to use, at least the smallest amount.

    `in_dollars`: whether it spends from a budget in dollars; that of a job
    `needs_price`.

    Raises:
        PermanentError: `runtime.budget.no_price`, `runtime.quota.estimate_failed`.
    """
    dependency, bound = call.dependency, call.bound
    tokens = estimated_tokens(dependency, bound)
    if needs_price and dependency.estimate_usd is None and dependency.layer == "llm":
        raise no_price_error(dependency.name)
    # A call of nothing would fit into a spent budget, too.
    nano_usd = round(estimated_usd(dependency, bound) * NANO * call.lane.share)
    return Amount(max(1, tokens), max(int(in_dollars), nano_usd))
