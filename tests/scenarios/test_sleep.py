"""Guarantee: a stage sleeps without a worker, once, also if its workers die."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from piecework import Context, Pipeline, Stage
from piecework.domain.outcome import TIMER, Succeeded
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.errors import UsageError
from piecework.testing import run_in_memory
from piecework_orchestrator.operate.cancel import cancel
from piecework_orchestrator.reading.chunk_documents import chunk_document
from piecework_orchestrator.reading.job_documents import explain
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, sleeping

JOB = JobRef("default", "job-1")
#: Seconds that a stage sleeps; longer than a sleep that stays in its worker.
SLEEP_S = 6.0


async def asleep(scenario: Scenario) -> bool:
    """Return whether every chunk sleeps without an owner."""
    chunks = await scenario.chunks()
    return all(
        (c.status, c.item.get("blocked_on")) == (ChunkStatus.WAITING, TIMER)
        for c in chunks
    )


async def test_a_sleeping_chunk_has_no_worker_and_repeats_no_call(
    scenario: Scenario,
) -> None:
    await scenario.submit(sleeping, [Item(n=n, seconds=SLEEP_S) for n in range(3)])
    async with scenario.worker():
        await scenario.until(lambda: asleep(scenario))
    chunks, job = await scenario.chunks(), await scenario.job()
    assert {(c.attempts, c.claimed_by) for c in chunks} == {(0, "")}
    shown = await chunk_document(scenario.rt, job, 0)
    assert (shown["wait"]["reason"], shown["wait"]["until"]) == (
        "timer",
        chunks[0].retry_at,
    )
    (finding, *_) = (await explain(scenario.rt, job))["findings"]
    assert finding["code"] == "timer.waiting"  # no worker runs, and it needs no worker

    async with scenario.worker("w2"), scenario.reconciler():
        ended = await scenario.ended()
    assert ended.status is JobStatus.SUCCEEDED
    assert {c.attempts for c in await scenario.chunks()} == {1}
    assert scenario.happened("call") == 6
    assert scenario.happened("brew") == 6
    assert scenario.happened("first") == scenario.happened("woke") == 3


@pytest.mark.parametrize("moment", ["die before", "die after"])
async def test_a_worker_that_dies_beside_a_sleep_does_not_lengthen_it(
    scenario: Scenario, short_leases: None, moment: str
) -> None:
    await scenario.submit(sleeping, [Item(n=0, seconds=SLEEP_S, trouble=moment)])
    process = await scenario.process()
    reached = "call" if moment == "die before" else "woke"
    await scenario.until(lambda: scenario.happened(reached))
    await asyncio.sleep(0.5)  # the answer of the call is written within 0.25 s
    await process.kill()
    scenario.fix()
    await scenario.process()
    ended = await scenario.ended()
    # The chunk is suspect now: its stage sleeps, or has slept, in a child.
    assert ended.status is JobStatus.SUCCEEDED
    assert scenario.happened("call") == 2


async def test_a_cancel_ends_a_sleep_at_once(scenario: Scenario) -> None:
    await scenario.submit(sleeping, [Item(n=0, seconds=86_400.0)])
    async with scenario.worker(), scenario.reconciler():
        await scenario.until(lambda: asleep(scenario))
        await cancel(scenario.rt, JOB, actor="me", reason="enough")
        assert (await scenario.ended()).status is JobStatus.CANCELLED


async def test_a_sleep_in_memory_takes_no_time_and_its_moment_stays() -> None:
    seen: list[float] = []

    async def stage(ctx: Context[Item]) -> int:
        seen.append(ctx.caller.clock())
        await ctx.sleep(hours=20)
        moment = datetime.fromtimestamp(ctx.caller.clock(), UTC) + timedelta(days=3)
        await ctx.sleep_until(moment)
        for _ in range(2):
            await ctx.sleep(hours=1, name="poll")
        return 1

    run = await run_in_memory(
        Pipeline("sleeps", payload=Item, stages=[Stage(stage)]), [Item(n=0)]
    )
    assert isinstance(run.outcomes[0], Succeeded)
    assert [round((at - seen[0]) / 3600) for at in seen] == [0, 20, 92, 93, 94]


async def test_a_moment_without_a_zone_is_refused() -> None:
    refused: list[Any] = []

    async def stage(ctx: Context[Item]) -> int:
        with pytest.raises(UsageError, match="no time zone") as error:
            await ctx.sleep_until(datetime(2030, 1, 1))  # noqa: DTZ001 -- the mistake
        refused.append(error.value.code)
        return 1

    await run_in_memory(
        Pipeline("naive", payload=Item, stages=[Stage(stage)]), [Item(n=0)]
    )
    assert refused == ["pipeline.sleep.invalid"]
