"""What was not connected was not executed: nothing is in doubt, nothing is spent."""

from __future__ import annotations

import asyncio
import socket

import pytest

from piecework.domain.states import JobStatus
from piecework.pipelines import Pipeline
from piecework.store.checkpoints import read_effects
from tests.scenarios.conftest import Scenario
from tests.scenarios.dialling import dialling, isolated, unguarded
from tests.scenarios.pipelines import Item

CHUNKS = 12


def closed_port() -> int:
    """Return a port at which no server listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.mark.parametrize("pipeline", [dialling, unguarded, isolated])
async def test_an_effect_waits_for_a_service_that_does_not_listen(
    machine: Scenario, monkeypatch: pytest.MonkeyPatch, pipeline: Pipeline
) -> None:
    port, book = closed_port(), list[str]()
    monkeypatch.setenv("SCENARIO_PORT", str(port))

    async def receive(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        book.append((await reader.readline()).decode().split()[0])
        writer.write(b"sent\n")
        writer.close()

    await machine.submit(pipeline, [Item(n=n) for n in range(CHUNKS)])
    await machine.process(pipelines="tests.scenarios.dialling")

    async def all_waited() -> bool:
        chunks = await machine.chunks()
        assert not [chunk.ref for chunk in chunks if chunk.status.ended]
        return all(chunk.item.get("deferrals", 0) > 0 for chunk in chunks)

    await machine.until(all_waited)
    effects = [
        (effect.state, effect.was_not_sent)
        for chunk in await machine.chunks()
        for effect in await read_effects(machine.rt.table, chunk.ref)
    ]
    assert ("REFUSED", True) in effects
    # The probe of the breaker may be under way.
    assert {("REFUSED", True), ("INTENT", False)} >= set(effects)

    async with await asyncio.start_server(receive, "127.0.0.1", port):
        assert JobStatus.SUCCEEDED is (await machine.ended()).status
    chunks = await machine.chunks()
    assert [1] * CHUNKS == [chunk.attempts for chunk in chunks]
    assert sorted(map(str, range(CHUNKS))) == sorted(book)
