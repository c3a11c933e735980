"""Guarantee: a worker that is told to stop loses nothing; a second signal ends it."""

from __future__ import annotations

import asyncio
import signal

import pytest

from piecework.domain.states import ChunkStatus, JobStatus
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, counting


@pytest.mark.usefixtures("short_leases")
async def test_a_second_signal_ends_a_worker_at_once_and_another_claims_its_chunk(
    machine: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIECEWORK_SHUTDOWN_GRACE_S", "60")
    await machine.submit(counting, [Item(n=1, seconds=30.0)])
    worker = await machine.process("--no-reconcile")
    await machine.until(lambda: machine.happened("second"))

    worker.process.send_signal(signal.SIGTERM)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(worker.process.wait(), 0.5)
    worker.process.send_signal(signal.SIGTERM)
    assert 128 + signal.SIGTERM == await asyncio.wait_for(worker.process.wait(), 30)

    (left,) = await machine.chunks()
    assert (ChunkStatus.RUNNING, 1) == (left.status, left.attempts)
    async with machine.worker("heir"):
        await machine.until(lambda: machine.happened("second") == 2)
    (taken,) = await machine.chunks()
    assert 2 == taken.fence


async def test_messages_of_a_poll_that_ends_after_a_stop_are_visible_at_once(
    machine: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A message that was left hidden would show again in a minute, and no sooner.
    monkeypatch.setenv("PIECEWORK_VISIBILITY_S", "60")
    monkeypatch.setenv("PIECEWORK_LEASE_S", "40")
    monkeypatch.setenv("PIECEWORK_RECEIVE_WAIT_S", "10")
    await machine.submit(counting, [Item(n=0)], job="first")
    worker = await machine.process("--no-reconcile")
    assert (await machine.ended("first")).status is JobStatus.SUCCEEDED

    worker.process.send_signal(signal.SIGTERM)
    await machine.submit(counting, [Item(n=1)])
    assert 0 == await asyncio.wait_for(worker.process.wait(), 40)

    async with machine.worker("next"):
        ended = await machine.ended(within=40)
    (chunk,) = await machine.chunks()
    assert (JobStatus.SUCCEEDED, 1) == (ended.status, chunk.attempts)
