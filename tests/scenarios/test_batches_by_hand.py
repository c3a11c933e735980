"""Guarantee: an operator sees what batches do, cancels one, and sends calls direct."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from piecework.client import Client
from piecework.domain.states import JobStatus
from piecework.errors import NotFoundError, UsageError
from piecework.reconciler import loop
from piecework_orchestrator.reading.job_documents import explain, job_document
from tests.scenarios.batching import FakeProvider
from tests.scenarios.conftest import Scenario
from tests.scenarios.test_batches import (
    ASKING,
    HOUR_S,
    Question,
    ended,
    long_polls,
    paid_nano_usd,
    provider,
)

__all__ = ["long_polls", "provider"]


async def submit(scenario: Scenario, chunks: int) -> None:
    items = [Question(n=n) for n in range(chunks)]
    await scenario.submit(ASKING, items)  # type: ignore[arg-type]


async def first_batch(client: Client) -> dict[str, Any]:
    """Wait for a batch that its provider has; return it."""
    while True:
        for each in await client.batches():
            if each["batch"]:
                return each
        await asyncio.sleep(5.0)


async def test_each_view_says_what_is_gathered_and_what_a_batch_has_answered(
    scenario: Scenario, provider: FakeProvider
) -> None:
    client = Client(runtime=scenario.rt)
    assert await client.batches() == []
    await submit(scenario, 12)
    async with client, scenario.worker(), scenario.reconciler():
        await scenario.until(client.batches)
        await asyncio.sleep(30.0)
        (gathered,) = await client.batches(job="job-1", model="mini")
        assert (gathered["phase"], gathered["rows"]) == ("GATHERED", 12)
        assert gathered["jobs"] == [{"job": "job-1", "chunks": 12, "rows": 12}]
        job = await scenario.job()
        calls = (await job_document(scenario.rt, job))["batch_calls"]
        assert (calls["requested"], calls["gathered"]) == (12, 12)
        (found,) = (await explain(scenario.rt, job))["findings"][:1]
        assert "the next batch of mini at fake, made at" in found["message"]
        assert found["next"] == "piecework batches list"

        batch = await first_batch(client)
        assert await client.batches(job="other") == []
        assert await client.batches(model="other") == []
        assert (batch["phase"], batch["rows"], batch["expected_at"]) == (
            "CREATED",
            12,
            "",  # none has ended so far
        )
        shown = await client.batch(batch["batch"])
        assert shown["jobs"][0]["chunk_numbers"] == "0-11"
        assert "is asked again at" in shown["why"]
        (found,) = (await explain(scenario.rt, job))["findings"][:1]
        name = batch["batch"]
        assert f"Chunks wait for {name} of fake, 0 of 12 answered" in found["message"]
        assert (found["chunks"], found["next"]) == (
            12,
            f"piecework batches show {name}",
        )
        calls = (await job_document(scenario.rt, job))["batch_calls"]
        assert (calls["gathered"], calls["in_batches"]) == (0, 12)

        assert (await ended(scenario)).status is JobStatus.SUCCEEDED
        while await client.batches():  # noqa: ASYNC110 -- rows tell
            await asyncio.sleep(20.0)
        (last,) = await client.batches(ended=True)
        assert (last["phase"], last["answered"], last["jobs"]) == (
            "ENDED",
            12,
            [{"job": "job-1"}],
        )
        calls = (await job_document(scenario.rt, await scenario.job()))["batch_calls"]
        assert calls == {
            "requested": 12,
            "gathered": 0,
            "in_batches": 0,
            "answered": 12,
            "direct": 0,
        }
        with pytest.raises(UsageError) as refused:
            await client.cancel_batch(last["batch"])
        assert refused.value.code == "llm.batch.ended"
        with pytest.raises(NotFoundError) as unknown:
            await client.batch("none")
        assert unknown.value.code == "llm.batch.not_found"


async def test_a_cancelled_batch_is_taken_and_its_rest_asks_again(
    scenario: Scenario, provider: FakeProvider
) -> None:
    provider.takes_s = HOUR_S / 2
    await submit(scenario, 12)
    async with Client(runtime=scenario.rt, actor="ann") as client:
        async with scenario.worker(), scenario.reconciler():
            batch = await first_batch(client)
            began = scenario.rt.clock()
            told = await client.cancel_batch(batch["batch"], "another prompt")
            assert (told["wanted"], told["stranded"]) == ("cancel", False)
            await scenario.until(lambda: provider.asked["cancel"] > 0, within=60.0)
            # At once, not at the next poll.
            assert scenario.rt.clock() - began < 60.0
            job = await ended(scenario)
        shown = await client.batch(batch["batch"])
        (event,) = await client.fleet_events()
    assert (shown["phase"], shown["wanted_by"], shown["wanted_why"]) == (
        "CANCELLED",
        "ann",
        "another prompt",
    )
    assert event["event"] == "batch cancelled"
    assert job.status is JobStatus.SUCCEEDED
    assert (len(provider.batches), provider.asked["direct"]) == (2, 0)
    assert await paid_nano_usd(scenario) == provider.nano_usd


async def test_a_batch_goes_direct_when_an_operator_wants_it(
    scenario: Scenario, provider: FakeProvider
) -> None:
    provider.takes_s = HOUR_S
    await submit(scenario, 12)
    async with Client(runtime=scenario.rt) as client:
        async with scenario.worker(), scenario.reconciler():
            batch = await first_batch(client)
            await client.send_direct(batch["batch"])
            job = await ended(scenario)
        with pytest.raises(UsageError):
            await client.send_direct(batch["batch"], "mini")
    assert job.status is JobStatus.SUCCEEDED
    assert (len(provider.batches), provider.asked["direct"]) == (1, 12)
    assert await paid_nano_usd(scenario) == provider.nano_usd


async def test_what_is_gathered_goes_direct_when_an_operator_wants_it(
    scenario: Scenario, provider: FakeProvider
) -> None:
    await submit(scenario, 12)
    began = scenario.rt.clock()
    client = Client(runtime=scenario.rt)
    async with client, scenario.worker(), scenario.reconciler():
        await scenario.until(client.batches)
        await asyncio.sleep(10.0)
        (told,) = await client.send_direct(model="mini")
        assert (told["rows"], told["wanted"]) == (12, "direct")
        assert await client.send_direct(model="other") == []
        job = await ended(scenario)
    assert job.status is JobStatus.SUCCEEDED
    assert (provider.batches, provider.asked["direct"]) == ({}, 12)
    # Before the two minutes in which they would have been gathered.
    assert scenario.rt.clock() - began < 120.0


async def test_a_batch_in_doubt_that_an_operator_cancels_is_not_created_again(
    scenario: Scenario, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object) -> list[object]:
        return []

    provider.loses_create = lambda _: True
    monkeypatch.setattr(provider, "find", nothing)
    await submit(scenario, 12)
    client = Client(runtime=scenario.rt)
    async with client, scenario.worker(), scenario.reconciler():
        await scenario.until(lambda: bool(provider.batches), within=HOUR_S)
        await asyncio.sleep(5.0)
        (planned,) = await client.batches()
        assert (planned["phase"], planned["batch"]) == ("PLANNED", "")
        assert "in doubt" in planned["why"]
        await client.send_direct(planned["digest"])
        job = await ended(scenario)
    assert job.status is JobStatus.SUCCEEDED
    assert (len(provider.batches), provider.asked["direct"]) == (1, 12)


async def test_a_view_says_that_no_worker_collects_and_which_error_stopped_one(
    scenario: Scenario, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    class RefusedError(Exception):
        status_code = 401

    async def refuses(*_: object) -> None:
        raise RefusedError

    await submit(scenario, 12)
    async with Client(runtime=scenario.rt) as client:
        async with scenario.worker():
            batch = await first_batch(client)
            monkeypatch.setattr(provider, "status", refuses)
            await asyncio.sleep(150.0)
            shown = await client.batch(batch["batch"])
            assert "Its collector failed with llm." in shown["why"]
        await asyncio.sleep(HOUR_S / 3)
        shown = await client.batch(batch["batch"])
        assert "No worker has looked since" in shown["why"]
        (found,) = (await explain(scenario.rt, await scenario.job()))["findings"][:1]
        assert found["code"] == "batch.waiting"
        assert found["next"].startswith("piecework worker ")
        assert (await client.cancel_batch(batch["batch"]))["stranded"]


async def test_a_reconciler_measures_the_open_batches(
    scenario: Scenario, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int, float]] = []

    def note(_: object, event: str, **facts: Any) -> None:
        if event == "reconcile.pass":
            names = ("batches", "batch_rows", "batch_age_s")
            told.append(tuple(facts[name] for name in names))  # type: ignore[arg-type]

    monkeypatch.setattr(loop.telemetry, "emit", note)
    await submit(scenario, 12)
    client = Client(runtime=scenario.rt)
    async with client, scenario.worker(), scenario.reconciler():
        await first_batch(client)
        await asyncio.sleep(90.0)
        assert told[-1][:2] == (1, 12)
        assert 60.0 <= told[-1][2] <= 300.0
        await ended(scenario)
        await asyncio.sleep(60.0)
    assert told[-1] == (0, 0, 0.0)


async def test_a_forecast_names_both_prices_although_its_sample_went_direct(
    scenario: Scenario, provider: FakeProvider
) -> None:
    items = [Question(n=n) for n in range(40)]
    client = Client(runtime=scenario.rt)
    async with client, scenario.worker(), scenario.reconciler():
        job = await client.submit(ASKING, items, sample=4)
        found = await job.forecast()
        assert provider.asked["direct"] == 4
        lane, direct = found["usd"]["p50"], found["direct_usd"]["p50"]
        assert direct == pytest.approx(2 * lane, rel=0.01)
        (price, time) = (each for each in found["notes"] if "fake-1" in each)
        assert "went direct: the rest is forecast in batches" in price
        assert time == "the time leaves out the wait for batches of fake-1"
        await job.resume()
        while not (await job.facts()).ended:  # noqa: ASYNC110 -- rows tell
            await asyncio.sleep(60.0)
    assert [len(each.rows) for each in provider.batches.values()] == [36]
