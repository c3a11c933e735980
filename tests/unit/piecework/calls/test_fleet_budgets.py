"""What one worker reserves of a budget and reports, whatever the table answers."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from random import Random
from typing import Any, cast

import pytest

from piecework import Dependency, Effect, Limits, Usage, named_call
from piecework.calls.call import Call, CallScope
from piecework.calls.fleet_budgets import FleetBudgets, JobBudgets
from piecework.calls.fleet_limits import FleetLimits
from piecework.calls.shared_budget import Reservation
from piecework.calls.usage import ClaimUsage, UsageReporter
from piecework.domain.budget import NO_CAP, Amount, Cap
from piecework.domain.pause import Pause
from piecework.domain.protocols import ClaimLostError
from piecework.domain.refs import JobRef
from piecework.errors import PermanentError, StageError, StoreError
from piecework.resilience.budget import Budget, BudgetKey, Reply, Slice
from piecework.resilience.limits import QUOTA_CODE
from piecework.resilience.retry import RetryPolicy
from tests.unit.piecework.fakes import Diary, Log, caller
from tests.unit.piecework.provider import Provider, RefusedError
from tests.unit.piecework.provider import call as call_service
from tests.unit.virtual import run_virtually
from verification.flow.fleet import MemoryQuotas

JOB = JobRef("acme", "job")
MODEL = Dependency("model", usage=Usage, estimate=lambda *_: 10)
DAY = 1_699_920_000.0


@dataclass(slots=True)
class Record:
    """A budget in memory; `lost` answers are not delivered."""

    budget: Budget = field(default_factory=Budget)
    lost: int = 0
    requests: int = 0
    seconds: float = 0.01

    async def read(self, key: BudgetKey) -> Budget:
        del key
        self.requests += 1
        return self.budget

    async def write(self, key: BudgetKey, seen: int, budget: Budget) -> Reply:
        del key
        self.requests += 1
        ours = self.budget.seq == seen
        await asyncio.sleep(self.seconds)
        if ours:
            self.budget = budget
        if self.lost:
            self.lost -= 1
            raise StoreError("no answer", code="aws.service.unavailable")
        return Reply(self.budget, ours=ours)


@dataclass(slots=True)
class Worker:
    """One worker with the budgets of a job."""

    record: Record
    cap: Cap = NO_CAP
    offset: float = 0.0
    paused: list[Pause] = field(default_factory=list)
    budgets: JobBudgets = field(init=False)

    def __post_init__(self) -> None:
        log: Any = Log()
        common = (self.record, "w", self.clock, Random(1), log, self.pause)
        self.budgets = JobBudgets(FleetBudgets(*common), JOB, self.cap, JOB)

    def clock(self) -> float:
        return DAY + self.offset + asyncio.get_running_loop().time()

    async def pause(self, job: JobRef, pause: Pause, key: BudgetKey, seen: int) -> None:
        del job, key
        assert seen == self.record.budget.seq
        self.paused.append(pause)

    async def reserve(
        self, *, waits: bool = True, model: Dependency = MODEL
    ) -> Reservation:
        bound: Any = functools.partial(self.reserve)
        scope = CallScope("acme", "job", 0, "stage", "pipeline")
        call = Call("key", scope, model, bound, "digest")
        return await self.budgets.reserve(call, inf, waits=waits)

    async def spend(self, tokens: int) -> None:
        (await self.reserve()).correct(Amount(tokens))


def virtually(test: Callable[..., Any]) -> Callable[..., None]:
    @functools.wraps(test)
    def run() -> None:
        run_virtually(test())

    return run


@virtually
async def test_a_report_whose_answer_was_lost_counts_once() -> None:
    worker = Worker(Record(), Cap(1_000))
    await worker.spend(7)
    worker.record.lost = 2
    await asyncio.sleep(20)
    await worker.spend(5)
    await asyncio.sleep(20)
    budget = worker.record.budget
    assert budget.spent == Amount(12)
    assert budget.slices["w"].amount == Amount()


@virtually
async def test_a_budget_that_was_deleted_with_its_job_is_not_restored() -> None:
    worker = Worker(Record(), Cap(1_000))
    call = await worker.reserve()
    worker.record.budget = Budget()
    call.correct(Amount(7))
    await asyncio.sleep(20)
    assert Budget() == worker.record.budget
    requests = worker.record.requests
    await asyncio.sleep(20)
    assert requests == worker.record.requests


@virtually
async def test_a_call_that_comes_during_a_write_pauses_no_job() -> None:
    worker = Worker(Record(seconds=0.5), Cap(40))
    first = asyncio.create_task(worker.spend(10))
    await asyncio.sleep(1.8)  # the worker gives its slice back
    later = [asyncio.create_task(worker.spend(10)) for _ in range(3)]
    await asyncio.wait([first, *later])
    await asyncio.sleep(5)
    assert (worker.paused, worker.record.budget.spent) == ([], Amount(40))


@virtually
async def test_a_call_waits_for_those_in_flight_then_pauses_its_job() -> None:
    worker = Worker(Record(), Cap(15, 30))
    first = await worker.reserve()
    waiting = asyncio.create_task(worker.reserve())
    await asyncio.sleep(30)
    assert (waiting.done(), worker.paused) == (False, [])
    first.correct(Amount(2))
    await asyncio.sleep(3)
    (await waiting).correct(Amount(9))
    assert worker.paused == []
    last = asyncio.create_task(worker.reserve())
    await asyncio.sleep(3)
    pause = worker.paused[0]
    assert (pause.code, pause.unit) == ("budget", "tokens")
    (await worker.reserve(waits=False)).correct(Amount(1))
    await asyncio.sleep(3)
    assert (worker.record.budget.spent, last.done()) == (Amount(12), False)
    last.cancel()


@virtually
async def test_a_worker_that_was_counted_as_lost_does_not_report_twice() -> None:
    worker = Worker(Record(), Cap(1_000))
    running = await worker.reserve()
    await asyncio.sleep(2)
    stored = worker.record.budget
    recounted = replace(stored, seq=stored.seq + 1, slices={}, recounts=1)
    worker.record.budget = replace(recounted, spent=Amount(8))
    running.correct(Amount(8))
    await asyncio.sleep(5)
    assert worker.record.budget.spent == Amount(8)


@virtually
async def test_a_daily_budget_forgets_what_was_spent_the_day_before() -> None:
    slices = {"dead": Slice(Amount(90), 5)}
    stored = Budget(
        seq=4, operator=Cap(100), spent=Amount(9), slices=slices, day="2023-11-14"
    )
    worker = Worker(Record(stored), offset=86_400.0 - 1_060)
    worker.budgets.fleet.adopt("acme", Cap(100))
    waiting = asyncio.create_task(worker.spend(10))
    await asyncio.sleep(10)
    assert worker.paused[0].until == "2023-11-15T00:00:00.000Z"
    await asyncio.sleep(60)
    assert waiting.done()
    assert worker.record.budget.day == "2023-11-15"
    assert worker.record.budget.spent == Amount(10)
    assert "dead" not in worker.record.budget.slices
    assert (await worker.reserve()).estimate == Amount(10)  # no dollars to save


@virtually
async def test_a_budget_in_dollars_refuses_a_call_without_a_price() -> None:
    worker = Worker(Record(), Cap(None, 50))
    with pytest.raises(StageError) as error:
        await worker.reserve(model=Dependency("m", layer="llm"))
    assert error.value.code == "runtime.budget.no_price"
    assert worker.record.requests == 0


@pytest.mark.parametrize(("used_at_s", "made"), [(20.0, 1), (55.0, 0)])
def test_a_call_waits_for_budget_and_quota_together_as_long_as_for_one(
    used_at_s: float, made: int
) -> None:
    """The budget has room after 60 s, and the quota 60 s after its last start."""

    async def run() -> None:
        worker, log, quotas = Worker(Record(), Cap(10)), Log(), MemoryQuotas()
        model = replace(MODEL, limits=Limits(requests_per_minute=1))
        here, other = (
            FleetLimits(
                worker.clock, Random(seed), cast("Any", log), quotas, f"w{seed}"
            )
            for seed in (1, 2)
        )
        now, service = asyncio.get_running_loop().time, Provider()
        one = caller(
            clock=worker.clock,
            limits=here,
            budgets=worker.budgets,
            latest_start=lambda: now() + 100.0,
        )
        in_flight, began = await worker.reserve(), now()
        call = asyncio.ensure_future(call_service(one, model, service))
        await asyncio.sleep(used_at_s)
        limiter = other.of(model)
        assert limiter is not None
        await limiter.start(0, inf)
        await asyncio.sleep(60.0 - used_at_s)
        in_flight.correct(Amount())
        (end,) = await asyncio.gather(call, return_exceptions=True)
        assert (made, True) == (len(service.keys), now() - began <= 100.0)
        assert made or QUOTA_CODE == end.code

    run_virtually(run())


@pytest.mark.parametrize(
    ("usage", "spent"),
    [
        (None, Amount(10)),
        (Usage(), Amount(10)),
        (Usage(tokens_out=7), Amount(7)),
        (Usage(usd=5e-9), Amount(10, 5)),
        (Usage(usd=0.0), Amount(10)),
    ],
)
def test_the_estimate_stands_for_what_the_usage_of_an_answer_does_not_know(
    usage: Any, spent: Amount
) -> None:
    async def run() -> None:
        worker, log = Worker(Record(), Cap(1_000)), cast("Any", Log())
        limits = FleetLimits(worker.clock, Random(1), log, MemoryQuotas(), "w")
        limited = Limits(tokens_per_minute=1_000)
        model = replace(MODEL, limits=limited, usage=lambda _: usage)
        made_by = caller(clock=worker.clock, budgets=worker.budgets, limits=limits)
        await call_service(made_by, model, Provider(), "a")
        limiter = limits.of(model)
        assert limiter is not None
        assert limiter.correction == min(0, spent.tokens - 10)
        await worker.budgets.fleet.close()
        assert worker.record.budget.spent == spent

    run_virtually(run())


@virtually
async def test_an_answer_that_a_lookup_finds_counts() -> None:
    find = named_call("find")(Provider(answer="found").ask)
    bank = replace(MODEL, effect=Effect.LOOKUP, lookup=find)
    worker, provider = Worker(Record(), Cap(1_000)), Provider(ConnectionError())
    made_by = caller(clock=worker.clock, budgets=worker.budgets)
    assert await call_service(made_by, bank, provider) == "found"
    unknown = replace(bank, estimate=lambda *_: 1 // 0)
    odd = named_call("find")(Provider(answer=object()).ask)
    # No budget counts a call without an estimate, or an answer that is not stored. Nor
    # does it count a call that an earlier claim has counted.
    shops = (bank, False), (unknown, False), (replace(bank, lookup=odd), False)
    for shop, is_counted in (*shops, (bank, True)):
        diary = Diary(is_counted=is_counted)
        made_by = caller(diary, clock=worker.clock, budgets=worker.budgets)
        with pytest.raises(ClaimLostError):
            await call_service(caller(diary), shop, Provider(ClaimLostError()))
        with suppress(PermanentError):
            assert await call_service(made_by, shop, provider) == "found"
    await worker.budgets.fleet.close()
    assert worker.record.budget.spent == Amount(20)


@virtually
async def test_a_call_that_is_cut_off_may_have_cost_its_estimate() -> None:
    worker, claim = Worker(Record(), Cap(1_000)), ClaimUsage()
    effects = [Effect.PURE, Effect.PROVIDER_IDEMPOTENT, Effect.NON_IDEMPOTENT]
    for effect in effects:
        made_by = caller(clock=worker.clock, budgets=worker.budgets)
        made_by.attempts.usage = UsageReporter(claim.note)
        model = replace(MODEL, effect=effect)
        with pytest.raises(ClaimLostError):
            await call_service(made_by, model, Provider(ClaimLostError()))
    await worker.budgets.fleet.close()
    # The next claim sends an effect again with its key: it happens once.
    assert worker.record.budget.spent == Amount(20)
    assert claim.whole.item == {"possibly_paid": {"model": [1, 10]}}


@virtually
async def test_an_attempt_whose_end_is_unknown_may_have_cost_its_estimate() -> None:
    worker, claim = Worker(Record(), Cap(1_000)), ClaimUsage()
    unknown = TimeoutError(), ConnectionResetError(), RefusedError(408)
    told = RefusedError(503), ConnectionRefusedError()
    made_by = caller(clock=worker.clock, budgets=worker.budgets)
    made_by.attempts.usage = UsageReporter(claim.note)
    often = replace(MODEL, usage=lambda _: Usage(7), retry=RetryPolicy(attempts=6))
    provider = Provider(*unknown, *told)
    assert await call_service(made_by, often, provider) == "answer"
    await worker.budgets.fleet.close()
    assert worker.record.budget.spent == Amount(3 * 10 + 7)
    assert [(3, 30), (1, 7)] == [
        (claim.whole.total(kind)["calls"], claim.whole.total(kind)["tokens_in"])
        for kind in ("possibly_paid", "paid")
    ]


@virtually
async def test_a_job_and_its_tenant_have_one_budget_each() -> None:
    fleet = (worker := Worker(Record(), Cap(15))).budgets.fleet
    fleet.adopt("acme", Cap(100))
    call = await worker.reserve(waits=False)
    assert call.budgets == tuple(fleet.by_key.values())
    call.correct(Amount())
    fleet.forget_idle()
    assert len(fleet.by_key) == 2  # their tasks still run


@virtually
async def test_a_call_whose_budget_fails_holds_nothing() -> None:
    worker = Worker(cast("Any", None), Cap(15))
    with pytest.raises(AttributeError):
        await worker.reserve()
    (budget,) = worker.budgets.fleet.by_key.values()
    assert budget.held == Amount()


@virtually
async def test_a_call_that_waits_alone_gets_new_room() -> None:
    worker = Worker(Record(), Cap(10))
    await worker.spend(10)
    ((shared, _),) = worker.budgets.of_call()
    waiting = asyncio.ensure_future(shared.reserve(Amount(10), JOB, inf, waits=True))
    await asyncio.sleep(10)
    assert not waiting.done()
    stored = worker.record.budget
    worker.record.budget = replace(stored, seq=stored.seq + 1, operator=Cap(30))
    await asyncio.sleep(10)
    assert waiting.done()
