"""A dependency out of order: the whole fleet waits for it, at no cost to a chunk."""

from __future__ import annotations

import asyncio

from piecework.domain import keys
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.resilience.breaker import OPEN_CODE
from piecework.store.breakers import Breakers
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, freeing, leaning, sealing


async def all_wait(scenario: Scenario, job: str) -> bool:
    chunks = await scenario.chunks(job)
    return all(
        c.status is ChunkStatus.WAITING and c.item.get("error_code") == OPEN_CODE
        for c in chunks
    )


async def test_an_outage_defers_every_chunk_spends_no_attempt_and_ends_with_one_probe(
    scenario: Scenario,
) -> None:
    await scenario.submit(leaning, [Item(n=n) for n in range(8)])
    async with scenario.worker("w1"):
        await scenario.until(lambda: all_wait(scenario, "job-1"))
    parked = await scenario.chunks()
    assert [0] * 8 == [chunk.attempts for chunk in parked]
    assert {"supplier"} == {chunk.item["blocked_on"] for chunk in parked}
    asked = scenario.happened("asked")

    await scenario.submit(leaning, [Item(n=n) for n in range(3)], "job-2")
    # The clock of the second worker stands still until then, so no probe is due.
    goes_on, began = asyncio.Event(), scenario.rt.clock()

    def clock() -> float:
        return scenario.rt.clock() if goes_on.is_set() else began

    async with scenario.worker("w2", clock=clock):
        await scenario.until(lambda: all_wait(scenario, "job-2"))
        assert asked == scenario.happened("asked")
        noted = (await scenario.job("job-2")).item
        assert OPEN_CODE == noted["status_reason_code"]
        assert noted["status_reason"].startswith("waits for dependency supplier until ")

        scenario.fix()
        goes_on.set()
        for job in ("job-1", "job-2"):
            assert JobStatus.SUCCEEDED is (await scenario.ended(job)).status
    probe = [line[0] for line in scenario.ledger[asked : asked + 2]]
    assert ["asked", "supplied"] == probe
    assert asked + 11 == scenario.happened("asked")
    chunks = await scenario.chunks() + await scenario.chunks("job-2")
    assert [1] * 11 == [chunk.attempts for chunk in chunks]
    row = await scenario.rt.table.get(keys.BREAKERS_PK, "supplier")
    assert row is not None
    assert ("closed", "w1", "w2") == (
        row["breaker_state"],
        row["opened_by"],
        row["closed_by"],
    )


async def test_a_compensation_waits_for_its_dependency_and_continues(
    scenario: Scenario,
) -> None:
    await scenario.submit(freeing, [Item(n=n) for n in range(8)])
    async with scenario.worker():

        async def waiting() -> bool:
            chunks = await scenario.chunks()
            return any(c.item.get("error_code") == OPEN_CODE for c in chunks)

        await scenario.until(waiting)
        scenario.fix()
        assert JobStatus.FAILED is (await scenario.ended()).status
    letters = await scenario.letters()
    compensated = [row["compensation"] for row in letters]
    deferrals = [chunk.item.get("deferrals", 0) for chunk in await scenario.chunks()]
    waited = [n for n, times in enumerate(deferrals) if times]
    assert waited
    assert {"COMPENSATED"} == {compensated[n] for n in waited}


async def test_a_pivot_that_only_the_breaker_refused_is_known_not_to_have_happened(
    scenario: Scenario,
) -> None:
    now, rt = scenario.rt.clock(), scenario.rt
    record = Breakers(rt.table, "another", rt.clock)
    assert await record.open("depot", 0, now + 6.0, "tool.supplier.down") is None
    await scenario.submit(sealing, [Item(n=1)])
    scenario.fix()
    async with scenario.worker():
        assert JobStatus.FAILED is (await scenario.ended()).status
    (letter,) = await scenario.letters()
    (chunk,) = await scenario.chunks()
    assert (1, 1) == (chunk.item["deferrals"], scenario.happened("knock"))
    assert "COMPENSATED" == letter["compensation"]
    assert 1 == scenario.happened("unbook", "flight")
