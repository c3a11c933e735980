"""The counts of a job against what a door before AWS has seen, refusals included."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from piecework.cost.meter import CostMeter
from piecework.domain.model import JobRef, JobStatus
from piecework.reconciler.loop import reconcile_once
from piecework.runtime import Runtime, connect
from piecework.store.costs import Costs
from piecework_orchestrator.cost.bill import TaskSize
from piecework_orchestrator.cost.job import job_bill
from piecework_orchestrator.cost.prices import load_prices
from tests.scenarios.conftest import Scenario
from tests.scenarios.door import Door, door_to
from tests.scenarios.pipelines import Item, counting

JOBS = ("job-1", "job-2")
#: Whose units the emulator reports as AWS would; what it says of reads is wrong.
WRITES = ("PutItem", "UpdateItem", "TransactWriteItems")


@pytest.fixture
async def door(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Door]:
    """Stand before the emulator; who connects from now on comes through here."""
    async with door_to(scenario.rt.endpoint.url) as door:
        monkeypatch.setenv("AWS_ENDPOINT_URL", door.url)
        yield door


async def run_two_jobs(scenario: Scenario) -> list[CostMeter]:
    """Submit two jobs and work them off, in processes of their own as it were."""
    # What is cut off at the stop is not counted, so that nothing is to be.
    settings = replace(
        scenario.rt.settings, shutdown_grace_s=10.0, lease_s=30.0, visibility_s=40.0
    )
    async with AsyncExitStack() as stack:
        submitter = await stack.enter_async_context(connect(settings))
        worker = await stack.enter_async_context(connect(settings, actor="worker"))
        beside = await stack.enter_async_context(connect(settings))
        for job in JOBS:
            items = [Item(n=n, calls=2) for n in range(8)]
            await through(scenario, submitter).submit(counting, items, job)
        async with through(scenario, worker).worker():
            await reconcile_once(beside, scenario.log, observe_s=0.2)
            for job in JOBS:
                ended = await scenario.ended(job)
                assert ended.status is JobStatus.SUCCEEDED
        return [rt.cost for rt in (submitter, worker, beside)]


def through(scenario: Scenario, rt: Runtime) -> Scenario:
    return replace(scenario, rt=rt)


async def written_down(rt: Runtime) -> list[Mapping[str, int]]:
    costs = Costs(rt.table)
    found = [(await costs.of(JobRef("default", job))).values() for job in JOBS]
    return [{**row} for rows in found for row in rows]


def counted(rows: list[Mapping[str, int]], measure: str) -> Counter[str]:
    """Return what was counted of each operation, in whole ones."""
    found: Counter[str] = Counter()
    for row in rows:
        for name, count in row.items():
            kind, _, rest = name.partition("__")
            if kind == "op" and rest.endswith(f"__{measure}"):
                found[rest.removesuffix(f"__{measure}")] += count
    return Counter({name: count / 1000 for name, count in found.items()})


@pytest.mark.usefixtures("short_leases")
async def test_a_call_that_a_lost_claim_paid_for_is_shown_as_paid_twice(
    scenario: Scenario,
) -> None:
    settings = scenario.rt.settings
    await scenario.submit(counting, [Item(n=1, calls=2, seconds=7.0)])
    async with connect(settings, actor="worker") as rt:
        both = through(scenario, rt)
        async with both.worker("w1", frozen=True):
            await scenario.until(lambda: scenario.happened("second"))
            async with both.worker("w2"), both.reconciler():
                await scenario.ended()
            await scenario.until(lambda: scenario.happened("call") == 4)
    ended = await scenario.job()
    bill = await job_bill(scenario.rt, ended, load_prices(), "us-east-1", TaskSize())

    spent = {how: part["tokens_in"] for how, part in bill["calls"].items()}
    assert 40 == spent["paid"]
    assert 20 == spent["paid_by_lost_claims"]
    assert 20 == (await scenario.chunks())[0].item["tokens_in"]


async def test_what_is_billed_is_what_was_sent_and_the_other_way_round(
    scenario: Scenario, door: Door
) -> None:
    meters = await run_two_jobs(scenario)
    rows = await written_down(scenario.rt)
    unowned: list[Mapping[str, int]] = [meter.unowned for meter in meters]
    reads: list[Mapping[str, int]] = [
        account.counts
        for meter in meters
        for (_, owner), account in meter.accounts.items()
        if owner is not None
    ]

    everything = [*rows, *unowned, *reads]
    units = counted(everything, "units")

    assert door.turned_away > 5
    assert dict(door.came) == dict(counted(everything, "requests"))
    assert {op: door.units[op] for op in WRITES} == {op: units[op] for op in WRITES}
    assert [0, 0, 0] == [meter.unread for meter in meters]
