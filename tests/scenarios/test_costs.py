"""The counts of a job against what a proxy before AWS has seen, refusals included."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import astuple, replace

import pytest

from piecework.calls.usage import REQUEST_BYTES
from piecework.cost.meter import CostMeter
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.reconciler.loop import reconcile_once
from piecework.runtime import Runtime, connect
from piecework.store.costs import Costs
from piecework.store.paid import Paid
from piecework_orchestrator.cost import bill as bill_lines
from piecework_orchestrator.cost import stored
from piecework_orchestrator.cost.bill import TaskSize
from piecework_orchestrator.cost.job import job_bill
from piecework_orchestrator.cost.prices import load_prices
from piecework_orchestrator.cost.stored import (
    KINDS,
    size_of,
    stored_as,
    stored_at_once,
    stored_by,
    stored_of,
    untimed,
)
from tests.scenarios.conftest import Scenario
from tests.scenarios.counting_proxy import CountingProxy, proxy_to
from tests.scenarios.pipelines import Item, counting

JOBS = ("job-1", "job-2")
#: Whose units the emulator reports as AWS would; what it says of reads is wrong.
WRITES = ("PutItem", "UpdateItem", "TransactWriteItems")


@pytest.fixture
async def proxy(
    machine: Scenario, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[CountingProxy]:
    """Stand before the emulator; who connects from now on comes through here."""
    async with proxy_to(machine.rt.endpoint.url) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield proxy


async def run_two_jobs(scenario: Scenario) -> list[CostMeter]:
    """Submit two jobs and work them off, in processes of their own as it were."""
    # A request that is cut off at the stop is not counted: the stop must cut off none.
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


async def model_bill(scenario: Scenario) -> dict[str, dict[str, int]]:
    bill = await job_bill(
        scenario.rt, await scenario.job(), load_prices(), "us-east-1", TaskSize()
    )
    calls: dict[str, dict[str, int]] = bill["calls"]
    return calls


@pytest.mark.usefixtures("short_leases")
async def test_a_call_that_a_lost_claim_paid_for_is_shown_as_paid_twice(
    scenario: Scenario,
) -> None:
    await scenario.submit(counting, [Item(n=1, calls=2, seconds=7.0)])
    async with scenario.worker("w1", frozen=True):
        await scenario.until(lambda: scenario.happened("second"))
        async with scenario.worker("w2"), scenario.reconciler():
            await scenario.ended()
        await scenario.until(lambda: scenario.happened("call") == 4)

        async def lost_worker_has_written() -> bool:
            return (await model_bill(scenario))["paid_twice"]["calls"] == 2

        await scenario.until(lost_worker_has_written)
    spent = {
        how: part["tokens_in"] for how, part in (await model_bill(scenario)).items()
    }

    assert 40 == spent["paid"]
    assert 20 == spent["paid_twice"]
    assert 20 == (await scenario.chunks())[0].call_usage.total("paid")["tokens_in"]


@pytest.mark.usefixtures("short_leases")
async def test_the_bill_after_a_kill_is_that_of_the_provider(
    scenario: Scenario,
) -> None:
    await scenario.submit(counting, [Item(n=n, calls=60) for n in range(4)])
    scenario.hold("call", 30)
    victim = await scenario.process("--no-reconcile")
    await scenario.until(lambda: scenario.happened("call") >= 4 * 34)
    await victim.kill()
    scenario.release("call")
    made = scenario.happened("call")
    open_bill = await model_bill(scenario)
    async with scenario.worker("heir"), scenario.reconciler():
        await scenario.ended()
    bill, provider = await model_bill(scenario), scenario.happened("call")

    # Without the victim's pages it would be what the heir paid: `provider - made`.
    unknown = provider - bill["paid"]["calls"]
    assert bill["paid"]["calls"] > provider - made
    assert 0 < unknown <= bill["possibly_paid"]["calls"]
    # A call has 4 neighbours, lasts 30 ms, and is written within 250 ms.
    assert unknown <= 4 * 4 * (1 + 250 / 30)
    assert made - unknown == open_bill["paid"]["calls"] == bill["replayed"]["calls"]
    assert 10 * bill["paid"]["calls"] == bill["paid"]["tokens_in"]
    assert 0 == bill["paid_twice"]["calls"]


async def test_the_bill_has_exactly_the_requests_that_were_sent(
    machine: Scenario, proxy: CountingProxy
) -> None:
    meters = await run_two_jobs(machine)
    rows = await written_down(machine.rt)
    unowned: list[Mapping[str, int]] = [meter.unowned for meter in meters]
    reads: list[Mapping[str, int]] = [
        account.counts
        for meter in meters
        for (_, owner), account in meter.accounts.items()
        if owner is not None
    ]

    everything = [*rows, *unowned, *reads]
    units = counted(everything, "units")

    assert proxy.refused > 5
    assert dict(proxy.received) == dict(counted(everything, "requests"))
    assert {op: proxy.units[op] for op in WRITES} == {op: units[op] for op in WRITES}
    assert [0, 0, 0] == [meter.unread for meter in meters]


async def test_the_bill_measures_what_the_table_stores_and_what_calls_sent(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scenario.submit(counting, [Item(n=n, calls=30) for n in range(8)])
    async with scenario.worker():
        await scenario.ended()
    job, table = await scenario.job(), scenario.rt.table
    rows = [row async for row in table.query(job.ref.pk, any_version=True)]
    sizes = [size_of(row) for row in rows if row["sk"].startswith(KINDS)]
    found = await stored_by(table, job)

    at_once, few = await stored_at_once(table, job), await untimed(table, job)
    assert astuple(at_once) == pytest.approx(astuple(stored_as(sizes) + few))
    assert found.bytes == at_once.bytes
    assert found.write_units == few.write_units, "DynamoDB deletes the rest"
    assert found.spare_days == pytest.approx(7.0, abs=0.1)
    assert len(sizes) >= 16, "each chunk has its row, and a page of answers"
    of_chunks = await stored_of(table, job, range(8))
    assert of_chunks.bytes == pytest.approx(found.bytes - few.bytes, rel=0.05), (
        "no join"
    )
    # Of a large job only the first megabyte of each kind is read.
    monkeypatch.setattr(stored, "READ_BYTES", 1)
    assert (await stored_by(table, job)).bytes == pytest.approx(found.bytes, rel=0.2)
    bill = await job_bill(
        scenario.rt, job, load_prices(), "us-east-1", TaskSize(), Paid()
    )
    counted = [each.counts["call_bytes"] for each in scenario.rt.cost.accounts.values()]
    lines = {line["item"]: line["count"] for line in bill["lines"]}
    assert found.write_units == lines["deletion"]
    days = scenario.rt.settings.job_retention_days
    assert days == pytest.approx(bill["kept_days"], abs=0.1)
    sent = lines.get("sent by calls", 0) * bill_lines.GB + sum(counted)
    assert 240 * REQUEST_BYTES <= sent < 250 * REQUEST_BYTES
