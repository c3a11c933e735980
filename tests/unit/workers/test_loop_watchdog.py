"""A stage that blocks the event loop is named by a thread, with its stack."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from piecework.context import Context
from piecework.pipelines import Pipeline, Stage
from piecework_worker.loop_watchdog import BlockedLoop, LoopWatchdog
from tests.unit.piecework.fakes import Clause, context

SECRET = "the text of a clause"


class Told:
    """A log that says when the watchdog has told something."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.facts: dict[str, Any] = {}

    def error(self, name: str, **facts: Any) -> None:
        self.facts = {"event": name, **facts}
        self.event.set()


async def test_the_log_names_the_stage_that_blocks_the_loop() -> None:
    log = Told()
    watchdog = LoopWatchdog(BlockedLoop(), 0.05, log)  # type: ignore[arg-type]

    async def helper() -> bool:
        clause = SECRET
        return bool(clause) and log.event.wait(30)

    async def blocking(_: Context[Clause]) -> bool:
        return await asyncio.create_task(helper())

    stage = Stage(blocking)
    pipeline = Pipeline(name="review", payload=Clause, stages=[stage])
    ctx = context(pipeline, stage="blocking")
    async with watchdog.running():
        with watchdog.blocked_loop.watch(stage, ctx):
            assert await blocking(ctx)

    facts = log.facts
    assert ("worker.loop_blocked", "review", "blocking", ctx.job, ctx.chunk) == tuple(
        facts[name] for name in ("event", "pipeline", "stage", "job", "chunk")
    )
    assert any(where.endswith("in helper") for where in facts["stack"])
    assert SECRET not in str(facts)
    assert {("review", "blocking")} == watchdog.blocked_loop.stages


async def test_a_block_outside_of_a_stage_blames_no_stage() -> None:
    log = Told()
    watchdog = LoopWatchdog(BlockedLoop(), 0.05, log)  # type: ignore[arg-type]
    async with watchdog.running():
        assert log.event.wait(30)
    assert "stage" not in log.facts
    assert set() == watchdog.blocked_loop.stages
