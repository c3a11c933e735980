"""Guarantee: the reconciler repairs what was lost between two steps."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from piecework import Results
from piecework.aws.queue import Message
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.reconciler.loop import Reconciler
from piecework.store.completion import Tallies
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, counting, note


async def test_a_chunk_whose_message_was_lost_is_sent_again(scenario: Scenario) -> None:
    rt = scenario.rt
    await scenario.submit(counting, [Item(n=n) for n in range(3)])
    await scenario.lose_messages()
    assert (await Reconciler(rt, scenario.log).run_pass())["redispatched"] == 0

    acts = await Reconciler(scenario.later(3600), scenario.log).run_pass()

    assert acts["redispatched"] == 3
    async with scenario.worker():
        ended = await scenario.ended()
    assert ended.status is JobStatus.SUCCEEDED


@pytest.mark.usefixtures("short_leases")
async def test_a_dead_lease_is_given_back_and_a_live_one_is_not(
    scenario: Scenario,
) -> None:
    rt = scenario.rt
    await scenario.submit(counting, [Item(n=1, seconds=60.0)])
    victim = await scenario.process("--no-reconcile")
    await scenario.until(lambda: scenario.happened("second"))
    reconciler = Reconciler(rt, scenario.log)

    async def count_released() -> int:
        reconciler.request_pass()
        return (await reconciler.run_pass())["expired lease released"]

    for _ in range(4):
        await asyncio.sleep(rt.settings.lease_s / 3)
        assert await count_released() == 0
    await victim.kill()

    await scenario.until(count_released)
    (chunk,) = await scenario.chunks()
    assert (chunk.status, chunk.attempts) == (ChunkStatus.WAITING, 0)
    assert chunk.takeovers == 1


@pytest.mark.usefixtures("short_leases")
async def test_a_released_chunk_does_not_wait_behind_the_queue(
    machine: Scenario,
) -> None:
    rt = machine.rt
    await machine.submit(counting, [Item(n=1, seconds=3.0)])
    victim = await machine.process("--no-reconcile")
    await machine.until(lambda: machine.happened("second"))
    await victim.kill()
    await rt.work.default.client.purge_queue(QueueUrl=rt.work.default.url)

    async with machine.worker("heir") as worker:
        reconciler = Reconciler(rt, machine.log, worker.offer_chunk)

        async def count_released() -> int:
            reconciler.request_pass()
            return (await reconciler.run_pass())["expired lease released"]

        await machine.until(count_released)
        assert await rt.work.default.depth() == 0
        ended = await machine.ended()

    assert ended.status is JobStatus.SUCCEEDED
    assert machine.happened("first") == 1


async def test_a_job_whose_last_worker_died_is_finished(scenario: Scenario) -> None:
    rt = scenario.rt
    await scenario.submit(counting, [Item(n=n) for n in range(3)])

    async with scenario.worker(tallies=Forgetful(rt.table)):

        async def all_ended() -> bool:
            return all(c.status.ended for c in await scenario.chunks())

        await scenario.until(all_ended)
        assert (await scenario.job()).status is JobStatus.RUNNING
        acts = await Reconciler(rt, scenario.log).run_pass()
        ended = await scenario.ended()

    assert acts["join started"] == 1
    assert ended.status is JobStatus.SUCCEEDED
    assert scenario.happened("join") == 1


class Forgetful(Tallies):
    """What a worker that dies between a settlement and its tally comes to."""

    async def add(self, *_: object) -> bool:
        """Count nothing."""
        return False


async def test_the_dead_letter_queue_is_emptied_into_the_record(
    scenario: Scenario,
) -> None:
    rt = scenario.rt
    job, _ = await scenario.submit(counting, [Item(n=1)])
    await scenario.lose_messages()
    orphan = Message.about(job.ref.chunk(9), 1)
    await rt.dead_letter_queue.send([Message.about(job.ref.chunk(0), 1), orphan])

    acts = await Reconciler(rt, scenario.log).run_pass()

    assert acts["dead-letter queue: redispatched"] == 1
    assert acts["dead-letter queue: quarantined"] == 1
    assert await rt.dead_letter_queue.depth() == 0
    async with scenario.worker():
        ended = await scenario.ended()
    assert ended.status is JobStatus.SUCCEEDED


@pytest.mark.usefixtures("short_leases")
async def test_a_join_whose_finisher_died_is_run_by_another(scenario: Scenario) -> None:
    rt = scenario.rt
    await scenario.submit(counting, [Item(n=n) for n in range(3)])
    async with scenario.worker("finisher", frozen=True) as worker:
        hung = {"counting": replace(counting, join=never_ends)}
        worker.services.intake.pipelines = hung
        await scenario.until(lambda: scenario.happened("never"))
        reconciler = Reconciler(rt, scenario.log)

        async with scenario.worker("other"):

            async def ended() -> bool:
                reconciler.request_pass()
                await reconciler.run_pass()
                return (await scenario.job()).status.ended

            await scenario.until(ended)

    assert (await scenario.job()).status is JobStatus.SUCCEEDED
    assert scenario.happened("join") == 1


async def never_ends(ctx: Results) -> None:
    """Be a join in the middle of which its worker dies."""
    note("never", ctx.job)
    await asyncio.sleep(60)
