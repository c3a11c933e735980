"""Guarantee: a job in the flex lane pays half, to the cent, and loses nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from piecework.declared import as_pipeline
from piecework.domain.chunk import Chunk
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.resilience.lanes import NO_ROOM_CODE
from piecework_orchestrator.reading.job_documents import explain
from tests.scenarios import conftest, flexing
from tests.scenarios.conftest import Scenario
from tests.scenarios.flexing import FlexProvider, Question
from tests.scenarios.test_costs import model_bill

HOUR_S = 3600.0
PIPELINE = as_pipeline(flexing.flexing)


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[FlexProvider]:
    found = FlexProvider()
    monkeypatch.setattr(flexing, "current", found)
    monkeypatch.setitem(conftest.ALL, PIPELINE.name, PIPELINE)
    return found


async def submit(scenario: Scenario, chunks: int, lane: str = "") -> None:
    items = [Question(n=n) for n in range(chunks)]
    await scenario.submit(PIPELINE, items, lane=lane)  # type: ignore[arg-type]


async def paid_nano_usd(scenario: Scenario) -> int:
    return round((await model_bill(scenario))["paid"]["usd"] * 1e9)


async def waiting(scenario: Scenario) -> list[Chunk]:
    return [c for c in await scenario.chunks() if c.error_code == NO_ROOM_CODE]


async def test_a_killed_job_pays_half_and_its_bill_is_the_book_of_the_provider(
    scenario: Scenario, provider: FlexProvider
) -> None:
    # The tier is full at first, and two answers come from the usual tier.
    provider.has_room = lambda number: number >= 90
    provider.keeps_tier = lambda number: number % 60 != 0
    await submit(scenario, 40)
    victim = await scenario.process("--no-reconcile", pipelines=flexing.__name__)

    async def books_agree_in_flight() -> bool:
        booked = len(provider.book) >= 40 and provider.in_flight > 0
        return booked and await paid_nano_usd(scenario) == provider.nano_usd

    await scenario.until(books_agree_in_flight, within=HOUR_S)
    await victim.kill()
    async with scenario.worker("heir"), scenario.reconciler():
        job = await scenario.ended(within=HOUR_S)

    assert job.status is JobStatus.SUCCEEDED
    assert len(provider.book) == 80
    assert await paid_nano_usd(scenario) == provider.nano_usd
    assert provider.nano_usd <= 0.52 * provider.direct_nano_usd
    # No refusal of the full tier has spent an attempt.
    assert {chunk.attempts for chunk in await scenario.chunks()} == {1}


async def test_a_chunk_without_room_waits_is_explained_and_goes_direct(
    scenario: Scenario, provider: FlexProvider
) -> None:
    provider.has_room = lambda _: False
    await submit(scenario, 3)
    async with scenario.worker(), scenario.reconciler():
        began = scenario.rt.clock()

        async def all_wait() -> bool:
            return len(await waiting(scenario)) == 3

        await scenario.until(all_wait)
        found = (await explain(scenario.rt, await scenario.job()))["findings"]
        (full,) = [each for each in found if each["code"] == "lane.full"]
        assert (full["chunks"], full["message"]) == (
            3,
            "The cheap lane of mini has no room now.",
        )
        assert {(c.status, c.attempts) for c in await waiting(scenario)} == {
            (ChunkStatus.WAITING, 0)
        }
        job = await scenario.ended(within=4 * HOUR_S)

    assert job.status is JobStatus.SUCCEEDED
    # Each of the two calls of a chunk has waited for its hour.
    assert 2 * HOUR_S <= scenario.rt.clock() - began <= 2.5 * HOUR_S
    assert provider.asked.count("") == 6
    # So long a wait costs few claims: 15, 30, 60 … 300 s between two requests.
    assert provider.asked.count("flex") <= 6 * 17
    assert await paid_nano_usd(scenario) == provider.nano_usd


async def test_a_job_may_go_direct(scenario: Scenario, provider: FlexProvider) -> None:
    await submit(scenario, 3, lane="direct")
    async with scenario.worker():
        assert (await scenario.ended()).status is JobStatus.SUCCEEDED
    assert provider.asked == [""] * 6
    assert await paid_nano_usd(scenario) == provider.nano_usd


async def test_a_model_without_the_lane_is_a_dead_letter_that_names_it(
    scenario: Scenario, provider: FlexProvider
) -> None:
    provider.knows_flex = False
    await submit(scenario, 1)
    async with scenario.worker():
        await scenario.ended()
    (letter,) = await scenario.letters()
    assert letter["error_code"] == "llm.lane.unsupported"
    assert "mini-1" in str(letter)
    assert provider.asked == ["flex"]


async def test_an_answer_slower_than_the_stall_limit_is_awaited(
    scenario: Scenario, provider: FlexProvider
) -> None:
    limit_s = scenario.rt.settings.stall_timeout_s
    provider.slow_s = 880.0
    assert limit_s < provider.slow_s
    await submit(scenario, 1)
    async with scenario.worker():
        assert (await scenario.ended(within=HOUR_S)).status is JobStatus.SUCCEEDED
    (chunk,) = await scenario.chunks()
    # Two answers took longer than one claim may last without them.
    assert 2 * provider.slow_s > scenario.rt.settings.max_runtime_s
    assert (chunk.attempts, provider.asked) == (1, ["flex", "flex"])
