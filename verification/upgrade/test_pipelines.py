"""What becomes of a job when its pipeline changes under it, as docs/upgrade.md says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from piecework import Context, Pipeline, Stage, TransientError
from piecework.domain.states import ChunkStatus, JobStatus
from piecework_worker.services import open_services
from piecework_worker.worker import Worker
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, first, fixed, note


async def second(ctx: Context[Item]) -> None:
    """Fail until it is fixed, so that the chunk waits at this stage."""
    await stumble(ctx, "second")


async def added(ctx: Context[Item]) -> None:
    """Fail until it is fixed, in a stage that the pipeline before does not have."""
    await stumble(ctx, "added")


async def between(ctx: Context[Item]) -> str:
    """Do what was put in before a stage that chunks stand at."""
    note("between", ctx.chunk)
    return "done"


async def last(ctx: Context[Item]) -> str:
    """Say what the stage between has left."""
    note("last", ctx.chunk, ctx.values.get("between"))
    return "done"


async def stumble(ctx: Context[Item], stage: str) -> None:
    if ctx.payload.trouble == stage and not fixed():
        raise TransientError("not now", code="tool.stock.busy", retry_after=0.0)
    note(stage, ctx.chunk)


def pipeline(*stages: object) -> Pipeline:
    """Return a version of the one pipeline."""
    return Pipeline(name="grown", payload=Item, stages=[Stage(s) for s in stages])  # type: ignore[arg-type]


BEFORE = pipeline(first, second)
AFTER = pipeline(first, second, added, last)
INSERTED = pipeline(first, between, second, last)


@asynccontextmanager
async def worker(scenario: Scenario, has: Pipeline) -> AsyncIterator[None]:
    """Run a worker that has one version of the pipeline."""
    services = open_services(scenario.rt, "w", {has.name: has}, structlog.get_logger())
    stop = asyncio.Event()
    running = asyncio.create_task(Worker(services, stop).run())
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait_for(running, 15)


async def waits(scenario: Scenario, stage: str) -> None:
    """Wait until the only chunk waits at a stage."""

    async def is_so() -> bool:
        (chunk,) = await scenario.chunks()
        return chunk.status is ChunkStatus.WAITING and chunk.item["stage"] == stage

    await scenario.until(is_so)


async def test_a_new_stage_runs_at_the_end_and_before_the_place_of_the_chunk(
    scenario: Scenario,
) -> None:
    await scenario.submit(BEFORE, [Item(n=0, trouble="second")])
    async with worker(scenario, BEFORE):
        await waits(scenario, "second")
    scenario.fix()
    async with worker(scenario, INSERTED):
        ended = await scenario.ended()

    assert ended.status is JobStatus.SUCCEEDED
    assert [*map(scenario.happened, ("first", "between", "second"))] == [1, 1, 1]
    assert scenario.happened("last", "0", "done") == 1


async def test_a_worker_without_a_stage_leaves_its_chunks_to_those_that_have_it(
    scenario: Scenario,
) -> None:
    await scenario.submit(AFTER, [Item(n=0, trouble="added")])
    async with worker(scenario, AFTER):
        await waits(scenario, "added")
    (chunk,) = await scenario.chunks()
    tried = chunk.attempts
    async with worker(scenario, BEFORE):

        async def left() -> bool:
            return (await scenario.chunks())[0].item.get("blocked_on") is not None

        await scenario.until(left)
    (chunk,) = await scenario.chunks()
    notice = str((await scenario.job()).item["status_reason"])
    scenario.fix()
    async with worker(scenario, AFTER), scenario.reconciler():
        ended = await scenario.ended()

    assert (chunk.status, chunk.attempts) == (ChunkStatus.WAITING, tried)
    assert chunk.item["blocked_on"] == "workers of another version"
    assert chunk.item["error_code"] == "runtime.stage.not_found"
    assert notice.startswith("waits for workers of another version until")
    assert ended.status is JobStatus.SUCCEEDED
    assert await scenario.letters() == []
