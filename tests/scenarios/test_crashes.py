"""Guarantee: a worker that dies costs its chunks time, and no journalled call."""

from __future__ import annotations

import asyncio

import pytest

from piecework.domain import keys
from piecework.domain.states import ChunkStatus, JobStatus
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, counting


@pytest.mark.usefixtures("short_leases")
async def test_a_killed_worker_costs_time_and_no_journalled_call(
    machine: Scenario,
) -> None:
    await machine.submit(counting, [Item(n=1, calls=400)])
    victim = await machine.process("--no-reconcile")
    heir = await machine.process()

    async def pages_are_written() -> bool:
        return await remembered_calls(machine) >= 25

    await machine.until(pages_are_written)
    (chunk,) = await machine.chunks()
    holder = victim if chunk.item["claimed_by"] == victim.name else heir

    await holder.kill()
    made_before = [line[1] for line in machine.ledger if line[0] == "call"]
    journalled = await remembered_calls(machine)
    if holder is heir:
        await machine.process()  # the one with the reconciler's loop is gone

    async def taken_over() -> bool:
        (now,) = await machine.chunks()
        return now.fence == 2

    await machine.until(taken_over)
    ended = await machine.ended()
    for process in machine.processes:
        if process is not holder:
            await process.stop()

    calls = [line[1] for line in machine.ledger if line[0] == "call"]
    repeated = len(calls) - len(set(calls))
    assert ended.status is JobStatus.SUCCEEDED
    assert machine.happened("first") == 1
    assert len(made_before) < 400
    assert len(set(calls)) == 400
    # Calls may be paid twice only if they were in flight (4), or younger than a quarter
    # of a second.
    assert journalled >= 25
    assert repeated <= len(made_before) - journalled


async def remembered_calls(scenario: Scenario) -> int:
    """Count the results that the journal of chunk 0 holds."""
    job = await scenario.job()
    prefix = keys.work_prefix(0) + "CALLS#"
    pages = scenario.rt.table.query(job.ref.pk, prefix)
    return sum([page["count"] async for page in pages])


@pytest.mark.usefixtures("short_leases")
async def test_a_crash_resumes_at_the_last_checkpoint(scenario: Scenario) -> None:
    await scenario.submit(counting, [Item(n=n, seconds=1.0) for n in range(4)])
    victim = await scenario.process("--no-reconcile")
    await scenario.until(lambda: scenario.happened("second") == 4)
    await victim.kill()

    async with scenario.worker("heir"):
        ended = await scenario.ended()

    assert ended.status is JobStatus.SUCCEEDED
    assert scenario.happened("first") == 4
    assert scenario.happened("second") == 8
    chunks = await scenario.chunks()
    assert [(chunk.attempts, chunk.takeovers) for chunk in chunks] == [(1, 1)] * 4


@pytest.mark.usefixtures("short_leases")
async def test_a_chunk_that_kills_its_worker_ends_as_a_dead_letter(
    machine: Scenario,
) -> None:
    items = [Item(n=0), Item(n=1, trouble="poison"), Item(n=2)]
    await machine.submit(counting, items)

    async def keep_a_worker_running() -> None:
        while True:
            await (await machine.process("--max-chunks", "1")).process.wait()

    keeper = asyncio.create_task(keep_a_worker_running())
    try:
        ended = await machine.ended()
        # The last worker is alive: no poison is left to kill it.
    finally:
        keeper.cancel()

    (letter,) = await machine.letters()
    assert ended.status is JobStatus.PARTIAL
    assert (letter["chunk"], letter["error_code"]) == (1, "runtime.stage.killed")
    assert letter["attempts"] == machine.rt.settings.max_attempts
    # The first run killed the worker, and the others only their child.
    assert machine.happened("second", "1") == machine.rt.settings.max_attempts + 1


async def test_a_stop_releases_the_chunk_without_spending_an_attempt(
    machine: Scenario,
) -> None:
    await machine.submit(counting, [Item(n=1, seconds=4.0)])
    stopped = await machine.process("--no-reconcile")
    await machine.until(lambda: machine.happened("second"))

    exit_code = await stopped.stop()

    (chunk,) = await machine.chunks()
    assert exit_code == 0
    assert (chunk.status, chunk.attempts) == (ChunkStatus.WAITING, 0)
    assert chunk.item["releases"] == 1
    async with machine.worker("next"):
        ended = await machine.ended()
    assert ended.status is JobStatus.SUCCEEDED
    assert machine.happened("first") == 1
