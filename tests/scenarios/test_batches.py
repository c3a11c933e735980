"""Guarantee: a job in the batch lane pays half, to the cent, and loses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from piecework.declared import as_pipeline
from piecework.domain.budget import Cap
from piecework.domain.job import Job
from piecework.domain.outcome import BATCH
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.llm import Lane, Model
from piecework.resilience.budget import key_of_job
from piecework.store.batches import Batches
from piecework_orchestrator.operate.cancel import cancel
from piecework_orchestrator.operate.pause import pause, resume
from piecework_orchestrator.reading.job_documents import explain
from tests.scenarios import batching, conftest
from tests.scenarios.batching import PRICE, FakeProvider, Question
from tests.scenarios.conftest import Scenario
from tests.scenarios.test_costs import model_bill

HOUR_S = 3600.0
FLEX_PRICE = replace(PRICE, tiers={**PRICE.tiers, "flex": 0.5})
PIPELINE = as_pipeline(batching.batching)
ASKING = as_pipeline(batching.asking)


@pytest.fixture(autouse=True)
def long_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what only waits send few requests: a batch takes hours."""
    monkeypatch.setenv("PIECEWORK_RECEIVE_WAIT_S", "20")
    monkeypatch.setenv("PIECEWORK_RECONCILE_S", "20")


@pytest.fixture
def provider(
    long_polls: None, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FakeProvider]:
    found = FakeProvider(clock=scenario.rt.clock)
    monkeypatch.setattr(batching, "current", found)
    for each in (PIPELINE, ASKING):
        monkeypatch.setitem(conftest.ALL, each.name, each)
    return found


async def submit(scenario: Scenario, chunks: int, lane: str = "") -> None:
    items = [Question(n=n) for n in range(chunks)]
    await scenario.submit(PIPELINE, items, lane=lane)  # type: ignore[arg-type]


async def ended(scenario: Scenario) -> Job:
    """Wait until the job has ended; hours pass, so it is asked for rarely."""
    while not (job := await scenario.job()).status.ended:  # noqa: ASYNC110 -- rows tell
        await asyncio.sleep(20.0)
    return job


async def paid_nano_usd(scenario: Scenario) -> int:
    return round((await model_bill(scenario))["paid"]["usd"] * 1e9)


async def test_a_job_is_answered_in_batches_without_a_worker_and_pays_half(
    scenario: Scenario, provider: FakeProvider
) -> None:
    await submit(scenario, 20)
    async with scenario.worker(), scenario.reconciler():

        async def all_wait() -> bool:
            return all(
                (c.status, c.blocked_on) == (ChunkStatus.WAITING, BATCH)
                for c in await scenario.chunks()
            )

        await scenario.until(all_wait)
        first = (await explain(scenario.rt, await scenario.job()))["findings"][0]
        assert (first["code"], first["chunks"]) == ("batch.waiting", 20)
        job = await ended(scenario)
    assert job.status is JobStatus.SUCCEEDED
    # Two questions at once, then the third.
    assert [len(each.rows) for each in provider.batches.values()] == [40, 20]
    assert provider.asked["direct"] == 0
    assert len(provider.book) == 60
    assert await paid_nano_usd(scenario) == provider.nano_usd
    assert 2 * provider.nano_usd == provider.direct_nano_usd
    assert {chunk.attempts for chunk in await scenario.chunks()} == {1}


@pytest.mark.parametrize("lane", [Lane.direct(), Lane.flex(within="1h")], ids=repr)
async def test_code_that_leaves_the_lane_takes_what_a_batch_has_answered(
    scenario: Scenario,
    provider: FakeProvider,
    monkeypatch: pytest.MonkeyPatch,
    lane: Lane,
) -> None:
    await scenario.submit(ASKING, [Question(n=n) for n in range(12)])  # type: ignore[arg-type]
    ref = JobRef("default", "job-1")
    async with scenario.reconciler():
        async with scenario.worker():
            await scenario.until(lambda: bool(provider.batches), within=HOUR_S)
            await pause(scenario.rt, ref, actor="me", reason="new code")
            await scenario.until(lambda: provider.asked["outcomes"], within=HOUR_S)
            await asyncio.sleep(60.0)
        caller = replace(batching.Caller(), lanes=frozenset({"flex"}))
        moved = Model("mini", caller, model_id="fake-1", price=FLEX_PRICE, lane=lane)
        monkeypatch.setattr(batching, "mini", moved)
        async with scenario.worker("w2"):
            await resume(scenario.rt, ref, actor="me", reason="")
            assert (await ended(scenario)).status is JobStatus.SUCCEEDED
    assert (len(provider.book), provider.asked["direct"]) == (12, 0)
    assert await paid_nano_usd(scenario) == provider.nano_usd


async def test_code_that_leaves_the_lane_does_not_wait_for_an_open_batch(
    scenario: Scenario, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider may bill the batch: its calls are possibly paid, too."""
    provider.takes_s = 100 * HOUR_S
    await scenario.submit(ASKING, [Question(n=n) for n in range(12)])  # type: ignore[arg-type]
    async with scenario.reconciler():
        async with scenario.worker():
            await scenario.until(lambda: bool(provider.batches), within=HOUR_S)
        moved = Model("mini", batching.Caller(), model_id="fake-1", price=PRICE)
        monkeypatch.setattr(batching, "mini", moved)
        async with scenario.worker("w2"):
            assert (await ended(scenario)).status is JobStatus.SUCCEEDED
    assert provider.asked["direct"] == 12
    assert (await model_bill(scenario))["possibly_paid"]["calls"] == 12


#: The writes of a collector, and its requests to the provider: it dies at each.
WRITES = ("take", "plan", "drop_asked", "created", "note", "answer", "close", "end")
REQUESTS = ("create", "status", "outcomes")
UNWRITTEN = ("plan", "drop_asked", "create", "created")
POINTS = [
    *((when, name) for when in ("before", "after") for name in (*WRITES, "leave")),
    *((when, name) for when in ("before", "after") for name in REQUESTS[:1]),
    *(("before", name) for name in REQUESTS[1:]),
]


@pytest.mark.parametrize(
    ("when", "point", "exact"),
    [
        *((*point, True) for point in POINTS),
        # How the batch is found matters only while its id is not written.
        *((*point, False) for point in POINTS if point[1] in UNWRITTEN),
    ],
)
async def test_a_collector_that_dies_anywhere_loses_nothing_and_books_once(
    scenario: Scenario,
    provider: FakeProvider,
    monkeypatch: pytest.MonkeyPatch,
    when: str,
    point: str,
    exact: bool,  # noqa: FBT001 -- a parameter of the test
) -> None:
    provider.takes_s = 100.0
    provider.limits = replace(provider.limits, finds_exactly=exact)
    items = [Question(n=n) for n in range(12)]
    await scenario.submit(ASKING, items)  # type: ignore[arg-type]
    victim = await scenario.process("--no-reconcile", pipelines=batching.__name__)
    dies = Dying(victim, (when, point), at=2 if point in {"answer", "close"} else 1)
    dies.watch(monkeypatch, provider)
    async with scenario.reconciler():
        await scenario.until(lambda: dies.is_dead, within=HOUR_S)
        async with scenario.worker("heir"):
            job = await ended(scenario)
    assert job.status is JobStatus.SUCCEEDED
    assert provider.asked["direct"] == 0
    # The provider has billed each question once, and so has Piecework.
    assert len(provider.book) == 12
    assert len(provider.batches) == 1
    assert await paid_nano_usd(scenario) == provider.nano_usd
    assert (await model_bill(scenario))["paid"]["calls"] == 12


@dataclass
class Dying:
    """Kills a worker before or after the n-th step of a kind."""

    victim: Any
    point: tuple[str, str]
    at: int
    is_dead: bool = False

    async def reached(self, when: str, name: str) -> None:
        """Die here, if it is the time."""
        if self.is_dead or (when, name) != self.point:
            return
        self.at -= 1
        if self.at == 0:
            self.is_dead = True
            await self.victim.kill()
            await asyncio.sleep(1e9)

    def watch(self, monkeypatch: pytest.MonkeyPatch, provider: FakeProvider) -> None:
        """Watch each write and each request."""
        for name in (*WRITES, "leave"):
            true = getattr(Batches, name)
            monkeypatch.setattr(Batches, name, self.around(name, true))
        for name in REQUESTS[:2]:
            true = getattr(provider, name)
            monkeypatch.setattr(provider, name, self.around(name, true))
        outcomes = provider.outcomes

        async def dying(batch_id: str) -> AsyncIterator[Any]:
            await self.reached("before", "outcomes")
            async for each in outcomes(batch_id):
                yield each

        monkeypatch.setattr(provider, "outcomes", dying)

    def around(self, name: str, true: Any) -> Any:
        """Return a method with a point before and after it."""

        async def method(*args: Any, **kwargs: Any) -> Any:
            await self.reached("before", name)
            found = await true(*args, **kwargs)
            await self.reached("after", name)
            return found

        return method


async def run_asking(scenario: Scenario, chunks: int, lane: str = "") -> Job:
    """Run a job whose chunks ask one question each."""
    items = [Question(n=n) for n in range(chunks)]
    await scenario.submit(ASKING, items, lane=lane)  # type: ignore[arg-type]
    async with scenario.worker(), scenario.reconciler():
        return await ended(scenario)


async def test_rows_that_expire_fail_come_twice_or_never_are_answered_and_billed(
    scenario: Scenario, provider: FakeProvider
) -> None:
    def ends(name: str) -> str:
        # By the row, not by the batch: `_status` and `outcomes` ask for each.
        return ("answer", "expire", "absent", "refuse", "twice")[int(name[:8], 16) % 5]

    provider.ends = ends
    job = await run_asking(scenario, 60)
    assert job.status is JobStatus.SUCCEEDED
    # What expired or was absent is asked for once more, in the next batch, then direct.
    first, second = (each.rows for each in provider.batches.values())
    again = {name for name in first if ends(name) in {"expire", "absent"}}
    assert again == set(second)
    assert provider.asked["direct"] == sum(
        ends(name) in {"expire", "absent", "refuse"} for name in first
    )
    assert await paid_nano_usd(scenario) == provider.nano_usd


async def test_a_batch_that_is_refused_whole_is_made_once_more_then_its_calls_go_direct(
    scenario: Scenario, provider: FakeProvider
) -> None:
    provider.validates = lambda number: number > 0
    job = await run_asking(scenario, 12)
    assert job.status is JobStatus.SUCCEEDED
    assert (len(provider.batches), provider.asked["direct"]) == (2, 0)
    assert await paid_nano_usd(scenario) == provider.nano_usd


async def test_too_few_requests_go_direct_once_they_were_gathered(
    scenario: Scenario, provider: FakeProvider
) -> None:
    began = scenario.rt.clock()
    job = await run_asking(scenario, 9)
    assert job.status is JobStatus.SUCCEEDED
    assert (provider.batches, provider.asked["direct"]) == ({}, 9)
    assert 120 <= scenario.rt.clock() - began <= 300
    assert await paid_nano_usd(scenario) == provider.nano_usd


async def test_a_job_in_the_direct_lane_asks_no_batch(
    scenario: Scenario, provider: FakeProvider
) -> None:
    await run_asking(scenario, 12, lane="direct")
    assert (provider.batches, provider.asked["direct"]) == ({}, 12)


async def test_a_batch_that_is_late_is_cancelled_and_its_calls_go_direct(
    scenario: Scenario, provider: FakeProvider
) -> None:
    provider.takes_s = 1e9
    began = scenario.rt.clock()
    job = await run_asking(scenario, 12)
    assert job.status is JobStatus.SUCCEEDED
    assert (provider.asked["cancel"], provider.asked["direct"]) == (1, 12)
    assert 2 * HOUR_S <= scenario.rt.clock() - began <= 2.5 * HOUR_S
    assert await paid_nano_usd(scenario) == provider.nano_usd


@pytest.mark.parametrize("exact", [True, False], ids=["named", "unnamed"])
async def test_a_batch_whose_creation_was_not_answered_is_found_again(
    scenario: Scenario, provider: FakeProvider, *, exact: bool
) -> None:
    provider.loses_create = lambda number: number == 0
    provider.limits = replace(provider.limits, finds_exactly=exact)
    job = await run_asking(scenario, 12)
    assert job.status is JobStatus.SUCCEEDED
    assert (len(provider.batches), provider.asked["direct"]) == (1, 0)
    assert await paid_nano_usd(scenario) == provider.nano_usd


async def test_a_cancel_of_the_job_cancels_its_batch(
    scenario: Scenario, provider: FakeProvider
) -> None:
    await submit(scenario, 12)
    async with scenario.worker(), scenario.reconciler():
        await scenario.until(lambda: bool(provider.batches), within=HOUR_S)
        await cancel(scenario.rt, JobRef("default", "job-1"), actor="me", reason="x")
        assert (await scenario.ended()).status is JobStatus.CANCELLED
        await scenario.until(lambda: provider.asked["cancel"] > 0, within=HOUR_S)


async def test_a_fleet_without_workers_is_started_when_a_batch_must_be_asked_for(
    scenario: Scenario, provider: FakeProvider
) -> None:
    await submit(scenario, 12)
    async with scenario.reconciler():
        async with scenario.worker():
            await scenario.until(lambda: bool(provider.batches), within=HOUR_S)
        await scenario.lose_messages()

        async def is_called() -> bool:
            return bool(await scenario.rt.work.receive(1, of="", wait_s=0, hide_s=0))

        while not await is_called():  # noqa: ASYNC110 -- the queue tells
            await asyncio.sleep(20.0)
        async with scenario.worker("heir"):
            job = await ended(scenario)
    assert job.status is JobStatus.SUCCEEDED
    assert await paid_nano_usd(scenario) == provider.nano_usd


async def test_a_budget_reserves_half_and_pauses_the_job_once_it_is_spent(
    scenario: Scenario, provider: FakeProvider
) -> None:
    # A direct request is estimated at 4,096 tokens of an answer: 8,192 micro-dollars.
    items = [Question(n=n) for n in range(12)]
    half = 12 * 4_100_000
    await scenario.submit(
        ASKING,
        items,  # type: ignore[arg-type]
        budget=Cap(None, half),
    )
    async with scenario.worker(), scenario.reconciler():
        job = await ended(scenario)
    assert job.status is JobStatus.SUCCEEDED
    assert provider.asked["direct"] == 0
    spent = await scenario.rt.budgets.read(key_of_job(job.ref))
    assert spent.spent.nano_usd == provider.nano_usd
