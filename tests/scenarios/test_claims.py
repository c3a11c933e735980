"""Guarantee: one worker at a time runs a chunk, however often its message arrives."""

from __future__ import annotations

import asyncio

import pytest

from piecework.aws.queue import Message
from piecework.domain.states import ChunkStatus, JobStatus
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, blocking, counting


async def test_two_workers_and_every_message_twice_run_each_stage_once(
    scenario: Scenario,
) -> None:
    job, _ = await scenario.submit(counting, [Item(n=n, calls=2) for n in range(20)])
    copies = [Message.about(job.ref.chunk(n), 1) for n in range(20)]
    await scenario.rt.work.send(copies, to="")

    async with scenario.worker("w1"), scenario.worker("w2"):
        ended = await scenario.ended()

    assert ended.status is JobStatus.SUCCEEDED
    assert [scenario.happened("second", str(n)) for n in range(20)] == [1] * 20
    assert scenario.happened("call") == 40
    assert scenario.happened("join") == 1


@pytest.mark.usefixtures("short_leases")
async def test_a_worker_that_lost_its_lease_writes_nothing(scenario: Scenario) -> None:
    await scenario.submit(counting, [Item(n=1, seconds=6.0)])

    async with scenario.worker("zombie", frozen=True):
        await scenario.until(lambda: scenario.happened("second"))
        async with scenario.worker("awake"):
            ended = await scenario.ended()

    (chunk,) = await scenario.chunks()
    assert ended.status is JobStatus.SUCCEEDED
    assert chunk.fence == 2
    assert scenario.happened("first") == 1
    assert scenario.happened("join") == 1


@pytest.mark.usefixtures("short_leases")
@pytest.mark.usefixtures("short_leases")
async def test_blocking_work_longer_than_the_lease_keeps_its_chunk(
    machine: Scenario,
) -> None:
    await machine.submit(blocking, [Item(n=n, seconds=6) for n in range(2)])

    async with machine.worker("w1"), machine.worker("w2"):
        ended = await machine.ended()

    assert ended.status is JobStatus.SUCCEEDED
    assert machine.happened("grind") == 2
    assert [chunk.fence for chunk in await machine.chunks()] == [1, 1]


async def test_a_refused_claim_costs_the_chunk_no_attempt_and_no_message(
    scenario: Scenario,
) -> None:
    job, _ = await scenario.submit(counting, [Item(n=1, seconds=1.5)])
    await scenario.rt.work.send([Message.about(job.ref.chunk(0), 1)] * 5, to="")

    async with scenario.worker("w1"), scenario.worker("w2"):
        ended = await scenario.ended()

        async def queue_is_empty() -> bool:
            return await scenario.rt.work.default.depth() == 0

        await scenario.until(queue_is_empty)

    (chunk,) = await scenario.chunks()
    assert ended.status is JobStatus.SUCCEEDED
    assert (chunk.status, chunk.attempts) == (ChunkStatus.SUCCEEDED, 1)
    assert await scenario.letters() == []


async def test_messages_of_no_chunk_are_quarantined(scenario: Scenario) -> None:
    rt = scenario.rt
    job, _ = await scenario.submit(counting, [Item(n=1)])
    orphan = Message.about(job.ref.chunk(7), 1).model_dump_json()
    for body in ("no json", '{"v": 1, "tenant": "../x"}', orphan):
        await rt.work.default.client.send_message(
            QueueUrl=rt.work.default.url, MessageBody=body
        )

    async with scenario.worker():
        await scenario.ended()

        async def all_set_aside() -> bool:
            return len([r async for r in rt.dead_letters.query("QUARANTINE")]) == 3

        await scenario.until(all_set_aside)
        await asyncio.sleep(0)

    codes = sorted([r["error_code"] async for r in rt.dead_letters.query("QUARANTINE")])
    assert codes == [
        "runtime.message.malformed",
        "runtime.message.malformed",
        "runtime.message.orphan",
    ]
    assert len(await scenario.chunks()) == 1
