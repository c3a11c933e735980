"""Guarantee: a cancel that compensates does so once, and reports the result."""

from __future__ import annotations

import asyncio
import json

import pytest

from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework_orchestrator.operate.cancel import cancel
from piecework_orchestrator.reading.job_documents import job_document
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, travel

JOB = JobRef("default", "job-1")


def bookings(scenario: Scenario, n: int) -> list[str]:
    """Return what was booked and given back for an item, in its order."""
    lines = [line for line in scenario.ledger if "book" in line[0]]
    return [f"{line[0]} {line[1]}" for line in lines if line[2] == str(n)]


async def stop(scenario: Scenario) -> None:
    """Cancel the job, and have what was done undone."""
    await cancel(scenario.rt, JOB, actor="me", reason="enough", compensate=True)


async def test_a_running_chunk_is_interrupted_and_compensated(
    scenario: Scenario,
) -> None:
    await scenario.submit(travel, [Item(n=n, trouble="slow-car") for n in range(4)])
    async with scenario.worker("w1"), scenario.worker("w2"):
        await scenario.until(lambda: scenario.happened("car") == 4)
        await stop(scenario)
        ended = await scenario.ended()

    chunks = await scenario.chunks()
    assert ended.status is JobStatus.CANCELLED
    assert {chunk.status for chunk in chunks} == {ChunkStatus.CANCELLED}
    assert {c.item["compensation"] for c in chunks} == {"COMPENSATED"}
    assert {c.item["cancelled_at_stage"] for c in chunks} == {"cancelled-at-stage-car"}
    assert await scenario.letters() == []
    for n in range(4):
        assert bookings(scenario, n) == [
            "book flight",
            "book hotel",
            "unbook car",
            "unbook hotel",
            "unbook flight",
        ]
    shown = (await job_document(scenario.rt, ended))["cancel"]
    assert shown["cancel_compensates"] is True
    assert shown["calls_after_cancel"] == 0


async def test_a_waiting_chunk_is_compensated_by_the_next_worker(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piecework.saga.recovery.BASE", 600.0)
    await scenario.submit(travel, [Item(n=1, trouble="car-transient"), Item(n=2)])
    async with scenario.worker():
        await scenario.until(lambda: scenario.happened("tell"))

        async def waits() -> bool:
            return (await scenario.chunks())[0].status is ChunkStatus.WAITING

        await scenario.until(waits)
    await stop(scenario)
    assert (await scenario.job()).status is JobStatus.CANCELLING
    async with scenario.worker("w2"):
        ended = await scenario.ended()

    first, second = await scenario.chunks()
    assert ended.status is JobStatus.CANCELLED
    assert (first.status, first.attempts) == (ChunkStatus.CANCELLED, 2)
    assert first.item["compensation"] == "COMPENSATED"
    assert second.status is ChunkStatus.SUCCEEDED
    assert bookings(scenario, 1)[2:] == ["unbook car", "unbook hotel", "unbook flight"]
    assert [line for line in bookings(scenario, 2) if "unbook" in line] == []


async def test_a_chunk_that_never_started_needs_no_compensation(
    scenario: Scenario,
) -> None:
    await scenario.submit(travel, [Item(n=n) for n in range(30)])
    await stop(scenario)
    chunks = await scenario.chunks()
    assert (await scenario.job()).status is JobStatus.CANCELLED
    assert {chunk.status for chunk in chunks} == {ChunkStatus.CANCELLED}
    assert all("compensation" not in chunk.item for chunk in chunks)


async def test_a_chunk_whose_pivot_has_an_intent_goes_on_to_its_end(
    scenario: Scenario,
) -> None:
    items = [Item(n=1, trouble="pay-slowly"), Item(n=2, trouble="slow-car")]
    await scenario.submit(travel, items)
    async with scenario.worker():
        await scenario.until(
            lambda: scenario.happened("asked") and scenario.happened("car")
        )
        await stop(scenario)
        ended = await scenario.ended()

    paid, undone = await scenario.chunks()
    assert ended.status is JobStatus.CANCELLED
    assert (paid.status, undone.status) == (
        ChunkStatus.SUCCEEDED,
        ChunkStatus.CANCELLED,
    )
    assert scenario.happened("tell", "1") == 1
    assert scenario.happened("unbook", "flight", "1") == 0
    shown = (await job_document(scenario.rt, ended))["cancel"]
    assert shown["calls_after_cancel"] == 1
    assert shown["compensations"] == {"COMPENSATED": 1}


@pytest.mark.parametrize("trouble", ["slow-pay", "pay-by-quota", "pay-refused"])
@pytest.mark.parametrize("is_alive", [True, False])
async def test_a_chunk_whose_pivot_has_no_intent_is_compensated(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch, trouble: str, *, is_alive: bool
) -> None:
    """Cancel before the pivot's call, in its wait for quota, and after its refusal.

    The worker that ran the pivot runs on, or another one finds the chunk.
    """
    monkeypatch.setattr("piecework.saga.recovery.BASE", 600.0)
    used_up = [Item(n=9, trouble=trouble)] if trouble == "pay-by-quota" else []
    if used_up:
        await scenario.submit(travel, used_up, "before")
        async with scenario.worker():
            await scenario.ended("before")
    await scenario.submit(travel, [Item(n=1, trouble=trouble)])
    async with scenario.worker():
        await scenario.until(lambda: scenario.happened("paying", "1"))

        async def waits() -> bool:
            return (await scenario.chunks())[0].status is ChunkStatus.WAITING

        if trouble == "pay-refused":
            await scenario.until(waits)
        if is_alive:
            await stop(scenario)
            ended = await scenario.ended()
    if not is_alive:
        await stop(scenario)
        async with scenario.worker("w2"):
            ended = await scenario.ended()

    (chunk,) = await scenario.chunks()
    assert (ended.status, chunk.status) == (JobStatus.CANCELLED, ChunkStatus.CANCELLED)
    assert chunk.compensation == "COMPENSATED"
    assert bookings(scenario, 1) == [
        "book flight",
        "book hotel",
        "book car",
        "unbook car",
        "unbook hotel",
        "unbook flight",
    ]


async def test_a_chunk_that_waits_past_its_pivot_goes_on_to_its_end(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piecework.saga.recovery.BASE", 600.0)
    await scenario.submit(travel, [Item(n=1, trouble="tell-transient")])
    async with scenario.worker():

        async def waits() -> bool:
            return (await scenario.chunks())[0].status is ChunkStatus.WAITING

        await scenario.until(waits)
        await stop(scenario)
        scenario.fix()
        ended = await scenario.ended()

    (chunk,) = await scenario.chunks()
    assert ended.status is JobStatus.CANCELLED
    assert chunk.status is ChunkStatus.SUCCEEDED
    assert scenario.happened("tell") == 1
    assert scenario.happened("unbook") == 0


async def test_a_compensation_that_fails_is_a_dead_letter(scenario: Scenario) -> None:
    await scenario.submit(travel, [Item(n=1, trouble="slow-car hotel-stays")])
    async with scenario.worker():
        await scenario.until(lambda: scenario.happened("car"))
        await stop(scenario)
        ended = await scenario.ended()

    (letter,) = await scenario.letters()
    certificate = json.loads(await scenario.rt.objects.get(ended.item["certificate"]))
    assert ended.status is JobStatus.CANCELLED
    assert (letter["compensation"], letter["error_code"]) == (
        "FAILED",
        "job.cancel.requested",
    )
    assert certificate["outcomes"] == {"DEAD": 1}
    assert scenario.happened("unbook", "flight") == 1


async def test_an_in_flight_effect_is_drained_before_its_compensation(
    scenario: Scenario,
) -> None:
    await scenario.submit(travel, [Item(n=1, trouble="slow-hotel")])
    async with scenario.worker():
        await scenario.until(lambda: scenario.happened("asked"))
        await stop(scenario)
        await scenario.ended()
        await asyncio.sleep(0.2)

    assert bookings(scenario, 1) == [
        "book flight",
        "book hotel",
        "unbook hotel",
        "unbook flight",
    ]


@pytest.mark.usefixtures("short_leases")
async def test_another_worker_continues_a_compensation(
    scenario: Scenario,
) -> None:
    await scenario.submit(travel, [Item(n=1, trouble="slow-car", seconds=1.0)])
    victim = await scenario.process("--no-reconcile")
    await scenario.until(lambda: scenario.happened("car"))
    await stop(scenario)
    await scenario.until(lambda: scenario.happened("unbook", "car"))
    await victim.kill()
    async with scenario.worker("heir"):
        ended = await scenario.ended()

    (chunk,) = await scenario.chunks()
    assert ended.status is JobStatus.CANCELLED
    assert (chunk.status, chunk.item["compensation"]) == (
        ChunkStatus.CANCELLED,
        "COMPENSATED",
    )
    # What the victim was undoing as it died may be asked for twice, by one key.
    asked = {tuple(line): line for line in scenario.ledger if line[0] == "unbook"}
    assert [line[1] for line in asked.values()] == ["car", "hotel", "flight"]


@pytest.mark.usefixtures("short_leases")
async def test_another_worker_compensates_the_chunk_of_a_dead_one(
    scenario: Scenario,
) -> None:
    await scenario.submit(travel, [Item(n=1, trouble="slow-car")])
    victim = await scenario.process("--no-reconcile")
    await scenario.until(lambda: scenario.happened("car"))
    await victim.kill()
    await stop(scenario)
    async with scenario.worker("heir"):
        ended = await scenario.ended()

    (chunk,) = await scenario.chunks()
    assert ended.status is JobStatus.CANCELLED
    assert (chunk.status, chunk.attempts) == (ChunkStatus.CANCELLED, 1)
    assert bookings(scenario, 1)[2:] == ["unbook car", "unbook hotel", "unbook flight"]
