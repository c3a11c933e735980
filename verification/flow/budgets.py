"""What a fleet spends beyond the cap of a budget, in virtual time: the true attempts.

The table is a stub, and so is the provider, which keeps the book that is counted here.
A killed worker loses its calls, its answers and its reports at once.
"""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from piecework import Dependency, Usage
from piecework.calls.admission import Admission
from piecework.calls.attempts import Attempts
from piecework.calls.call import Call
from piecework.calls.fleet_budgets import FleetBudgets, JobBudgets
from piecework.domain.budget import Cap
from piecework.domain.pause import Pause
from piecework.domain.refs import JobRef
from piecework.resilience.budget import Budget, BudgetKey, Reply
from piecework.resilience.retry import RetryTime
from piecework_worker.call_limiter import CallLimiter
from tests.unit.virtual import run_virtually
from verification.flow.fleet import SCOPE, WRITE_S, Silent

JOB: Final = JobRef("tenant", "job")
#: Workers, the calls that each has in flight, and the seconds of a call.
WORKERS, AT_ONCE, CALL_S = 8, 16, (0.5, 3.0)
#: The tokens of a call by its estimate, and the cap.
ESTIMATE, CAP = 1_000, 3_000_000
#: When workers are killed, and how many.
KILLS_S, KILLED = (20.0, 40.0, 60.0), 3
MOST_S = 600.0


@dataclass(slots=True)
class MemoryBudgets:
    """Answers as the table does; counts the writes."""

    rng: Random = field(default_factory=lambda: Random(7))
    budget: Budget = field(default_factory=Budget)
    writes: int = 0

    async def read(self, key: BudgetKey) -> Budget:
        """Read the budget."""
        del key
        await asyncio.sleep(self.rng.uniform(WRITE_S / 4, WRITE_S))
        return self.budget

    async def write(self, key: BudgetKey, seen: int, budget: Budget) -> Reply:
        """Write the budget unless its `seq` is not the one that was seen."""
        del key
        self.writes += 1
        await asyncio.sleep(self.rng.uniform(WRITE_S / 8, WRITE_S / 2))
        if ours := self.budget.seq == seen:
            self.budget = budget
        await asyncio.sleep(self.rng.uniform(WRITE_S / 8, WRITE_S / 2))
        return Reply(self.budget, ours=ours)


@dataclass(slots=True)
class Spending:
    """A fleet that spends a budget until it is paused.

    Attributes:
        used: The smallest and the largest share of its estimate that a call uses.
        book: What each executed call used, as the provider knows it.
        most_in_flight: The most calls that were in flight at once.
    """

    cap: Cap
    used: tuple[float, float]
    kills: bool = False
    record: MemoryBudgets = field(default_factory=MemoryBudgets)
    book: list[int] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    seconds: float = 0.0
    paused: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> Spending:
        """Make calls until a worker pauses the job."""
        began = asyncio.get_running_loop().time()
        rng = Random(3)
        workers = [self.start(f"w{n}", Random(rng.random())) for n in range(WORKERS)]
        killing = asyncio.create_task(self.kill(workers))
        async with asyncio.timeout(MOST_S):
            await self.paused.wait()
        self.seconds = asyncio.get_running_loop().time() - began
        for task in [killing, *(task for _, tasks in workers for task in tasks)]:
            task.cancel()
        return self

    def start(
        self, name: str, rng: Random
    ) -> tuple[FleetBudgets, list[asyncio.Task[None]]]:
        """Start the calls of one worker."""
        log: Any = Silent()
        fleet = FleetBudgets(self.record, name, clock, rng, log, self.pause)
        slots, budgets = CallLimiter(64), JobBudgets(fleet, JOB, self.cap, JOB)
        calls = (self.chunk(rng, slots, budgets) for _ in range(AT_ONCE))
        return fleet, [asyncio.create_task(each) for each in calls]

    async def pause(self, job: JobRef, pause: Pause, key: BudgetKey, seen: int) -> None:
        """Note that a worker pauses the job."""
        del job, pause, key
        if seen == self.record.budget.seq:
            self.paused.set()

    async def kill(
        self, workers: list[tuple[FleetBudgets, list[asyncio.Task[None]]]]
    ) -> None:
        """Kill some workers: what they have not written is lost."""
        for number, seconds in enumerate(KILLS_S if self.kills else ()):
            await asyncio.sleep(seconds - (KILLS_S[number - 1] if number else 0))
            fleet, tasks = workers[number]
            running = [each._running for each in fleet.by_key.values()]
            for task in [*tasks, *(each for each in running if each is not None)]:
                task.cancel()

    async def chunk(self, rng: Random, slots: CallLimiter, budgets: JobBudgets) -> None:
        """Make one call after the other."""
        log: Any = Silent()
        loop_time = asyncio.get_running_loop().time
        while not self.paused.is_set():
            attempts = Attempts(
                retry_time=RetryTime(600.0, max_delay=60.0),
                admission=Admission(
                    slots,
                    clock,
                    budgets=budgets,
                    latest_start=lambda: loop_time() + MOST_S,
                ),
                rng=rng,
                clock=clock,
                log=log,
            )
            tokens = round(ESTIMATE * rng.uniform(*self.used))
            seconds = rng.uniform(*CALL_S)
            bound: functools.partial[Any] = functools.partial(
                self.answer, tokens, seconds
            )
            await attempts.make(Call("key", SCOPE, MODEL, bound, "digest"), "key")

    async def answer(
        self, tokens: int, seconds: float, *, idempotency_key: str = ""
    ) -> int:
        """Execute a call: it is paid for, whether its worker runs or not."""
        del idempotency_key
        self.book.append(tokens)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.in_flight -= 1
        return tokens

    @property
    def calls_beyond(self) -> int:
        """How many of the last calls were executed beyond the cap."""
        beyond, calls = sum(self.book) - CAP, 0
        for tokens in reversed(self.book):
            if beyond <= 0:
                break
            beyond, calls = beyond - tokens, calls + 1
        return calls


def clock() -> float:
    """Return the time of the loop as seconds since 1970."""
    return 1.7e9 + asyncio.get_running_loop().time()


MODEL: Final = Dependency(
    "model",
    layer="llm",
    usage=Usage,
    estimate=lambda *_: ESTIMATE,
    breaker=None,
)


@functools.cache
def spending(low: float, high: float, *, kills: bool = False) -> Spending:
    """Spend a budget; calls use such shares of their estimates."""

    async def main() -> Spending:
        return await Spending(Cap(CAP), (low, high), kills).run()

    return run_virtually(main())


def calls_beyond_cap() -> float:
    """Return the calls beyond the cap if no call uses more than its estimate."""
    return max(spending(0.2, 1.0).calls_beyond, spending(1.0, 1.0).calls_beyond)


def killed_calls_beyond_cap() -> float:
    """Return the same while workers are killed."""
    return spending(0.2, 1.0, kills=True).calls_beyond


def low_estimates_by_in_flight() -> float:
    """Return the calls beyond the cap by those in flight, if calls use ten times as
    much as estimated.
    """
    found = spending(8.0, 10.0)
    return found.calls_beyond / found.most_in_flight


def unspent_percent() -> float:
    """Return how much of the cap is left when the job is paused."""
    return 100 * (1 - sum(spending(0.2, 1.0).book) / CAP)


def killed_unspent_percent() -> float:
    """Return the same after kills, before the record of the calls is read."""
    return 100 * (1 - sum(spending(0.2, 1.0, kills=True).book) / CAP)


def writes_a_second_and_worker() -> float:
    """Return the writes of a worker in a second."""
    found = spending(0.2, 1.0)
    return found.record.writes / found.seconds / WORKERS
