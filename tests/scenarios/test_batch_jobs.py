"""Guarantee: a job in batches pays what its provider bills, through the true SDKs.

The clients of OpenAI and Anthropic ask stubs that keep books, without a socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from zlib import crc32

import pytest

from piecework.declared import as_pipeline
from piecework.domain.states import JobStatus
from piecework.llm import anthropic_messages, openai_chat
from piecework.llm.adapters import Adapter
from tests.providers.anthropic_stub import AnthropicStub
from tests.providers.openai_stub import OpenAIStub
from tests.providers.serving import unplugged
from tests.providers.stub import Fate, Stub
from tests.scenarios import batching, conftest
from tests.scenarios.batching import Question
from tests.scenarios.conftest import Scenario
from tests.scenarios.test_costs import model_bill

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

PIPELINE = as_pipeline(batching.batching)
CHUNKS = 40


class Through:
    """A provider of the pipeline: an adapter, with its batches."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    async def __call__(self, request: Any) -> Any:
        return await self._adapter(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter.batches, name)


@pytest.fixture(params=["openai", "anthropic"])
async def stub(
    request: pytest.FixtureRequest,
    scenario: Scenario,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Stub]:
    monkeypatch.setenv("PIECEWORK_RECEIVE_WAIT_S", "20")
    monkeypatch.setenv("PIECEWORK_RECONCILE_S", "20")
    found: Stub
    if request.param == "openai":
        found = OpenAIStub(clock=scenario.rt.clock, takes_s=1_000.0)
        http = unplugged(found)
        client = openai.AsyncOpenAI(api_key="k", http_client=http)
        adapter = openai_chat(client)
    else:
        found = AnthropicStub(clock=scenario.rt.clock, takes_s=1_000.0)
        http = unplugged(found)
        client = anthropic.AsyncAnthropic(api_key="k", http_client=http)
        adapter = anthropic_messages(client)
    monkeypatch.setattr(batching, "current", Through(adapter))
    monkeypatch.setitem(conftest.ALL, PIPELINE.name, PIPELINE)
    yield found
    await http.aclose()


def fate(name: str) -> Fate:
    """Let some rows expire, and others be absent."""
    fates: dict[int, Fate] = {0: "expired", 1: "absent"}
    return fates.get(crc32(name.encode()) % 12, "answered")


async def run(scenario: Scenario) -> None:
    items = [Question(n=n) for n in range(CHUNKS)]
    await scenario.submit(PIPELINE, items)  # type: ignore[arg-type]
    async with scenario.worker(), scenario.reconciler():
        while not (job := await scenario.job()).status.ended:  # noqa: ASYNC110 -- rows tell
            await asyncio.sleep(20.0)
    assert job.status is JobStatus.SUCCEEDED


async def test_the_bill_is_the_book_of_the_provider_and_half(
    scenario: Scenario, stub: Stub
) -> None:
    await run(scenario)

    assert [len(each.rows) for each in stub.batches.values()] == [80, 40]
    assert {each.tier for each in stub.book} == {"batch"}
    assert len(stub.book) == 3 * CHUNKS
    bill = (await model_bill(scenario))["paid"]
    assert round(bill["usd"] * 1e9) == stub.nano_usd


async def test_the_bill_is_the_book_after_a_lost_creation_and_odd_rows(
    scenario: Scenario, stub: Stub
) -> None:
    stub.lost_creations, stub.fate = 1, fate
    stub.twice = lambda name: crc32(name.encode()) % 7 == 0
    stub.more_lines = (b"no JSON\n", b'{"custom_id": "of-another"}\n')
    await run(scenario)

    rows = [name for each in stub.batches.values() for name, _ in each.rows]
    answered = [each.custom_id for each in stub.book if each.custom_id]
    assert len(set(answered)) == len(answered)  # no row is asked again once answered
    assert len(rows) > 3 * CHUNKS  # some were asked once more
    bill = (await model_bill(scenario))["paid"]
    assert round(bill["usd"] * 1e9) == stub.nano_usd
