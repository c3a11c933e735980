"""Guarantee: an input that harms its process costs no other chunk an attempt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from piecework.domain.states import ChunkStatus, JobStatus
from tests.scenarios.conftest import Scenario
from tests.scenarios.guilty import guilty
from tests.scenarios.pipelines import Item

GUILTY = ("--pipelines", "tests.scenarios.guilty")
INNOCENTS = 7


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIECEWORK_LEASE_S", "3")
    monkeypatch.setenv("PIECEWORK_VISIBILITY_S", "4")
    monkeypatch.setenv("PIECEWORK_LOOP_BLOCKED_S", "2")
    monkeypatch.setenv("PIECEWORK_MAX_ATTEMPTS", "2")


@asynccontextmanager
async def two_workers(scenario: Scenario) -> AsyncIterator[list[int]]:
    """Keep two workers running; yield the exit codes of those that ended."""
    ended: list[int] = []

    async def keep() -> None:
        while True:
            worker = await scenario.process(*GUILTY)
            ended.append(await worker.process.wait())

    keepers = [asyncio.create_task(keep()) for _ in range(2)]
    try:
        yield ended
    finally:
        for keeper in keepers:
            keeper.cancel()
            with suppress(asyncio.CancelledError):
                await keeper


@pytest.mark.parametrize(
    ("trouble", "code", "deaths"),
    [
        ("kill", "runtime.stage.killed", 1),
        ("block", "runtime.stage.blocked_loop", 0),
        ("interrupt in a task", "runtime.stage.unhandled", 0),
        ("handles", "runtime.worker.exhausted", None),
        ("threads", "runtime.worker.exhausted", None),
    ],
)
async def test_a_guilty_chunk_ends_alone(
    machine: Scenario, trouble: str, code: str, deaths: int | None
) -> None:
    """A worker dies at most once by a chunk; its neighbours keep their attempts."""
    items = [Item(n=n, seconds=1.0) for n in range(INNOCENTS)]
    await machine.submit(guilty, [*items, Item(n=99, seconds=0.5, trouble=trouble)])

    async with two_workers(machine) as ended:
        job = await machine.ended()

    chunks = await machine.chunks()
    (letter,) = await machine.letters()
    assert job.status is JobStatus.PARTIAL
    assert [ChunkStatus.SUCCEEDED] * INNOCENTS == [c.status for c in chunks[:-1]]
    assert [1] * INNOCENTS == [c.attempts for c in chunks[:-1]]
    assert (INNOCENTS, code) == (letter["chunk"], letter["error_code"])
    assert deaths in {None, len(ended)}
    if deaths is None:
        assert {9} >= set(ended)
    keys = [line[2] for line in machine.ledger if line[0] == "ask"]
    assert INNOCENTS + 1 == len(set(keys))
