from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from piecework.domain.outcome import Retry, Succeeded
from piecework.errors.codes import ErrorClass
from piecework.pipelines import Pipeline, Stage
from piecework.saga.compensation import started_stages
from piecework.saga.stage import next_stage
from piecework.testing.memory_records import MemoryCheckpoints
from tests.unit.piecework.fakes import (
    Clause,
    Log,
    caller,
    checkpoints_of,
    context,
    envelope,
    limits,
    names,
    run,
)
from tests.unit.piecework.script import Script
from tests.unit.virtual import run_virtually


async def test_stages_run_in_order_and_all_but_the_last_are_checkpointed() -> None:
    script = Script()
    kept = checkpoints_of(script.pipeline)
    assert await run(script.pipeline, kept) == Succeeded('"d done"')
    assert script.did == ["a", "b", "c", "d"]
    assert kept.completed == {n: f'"{n} done"' for n in "abc"}
    assert kept.cursor == "d"


async def test_a_stage_is_checkpointed_before_the_next_begins() -> None:
    script = Script()

    @dataclass
    class Noting(MemoryCheckpoints):
        async def complete(self, index: int, value: str, following: str) -> None:
            script.did.append(f"kept {index}, then {following}")
            await MemoryCheckpoints.complete(self, index, value, following)

    await run(script.pipeline, Noting(names(script.pipeline.stages)))
    assert script.did[:4] == ["a", "kept 0, then b", "b", "kept 1, then c"]


async def test_a_run_continues_from_the_last_checkpoint() -> None:
    script = Script()
    kept = checkpoints_of(script.pipeline, completed={"a": '"1"', "b": '"2"'})
    ctx = context(script.pipeline)
    assert await run(script.pipeline, kept, ctx=ctx) == Succeeded('"d done"')
    assert script.did == ["c", "d"]
    assert ctx.values["a"] == "1"


async def test_each_stage_without_a_value_runs() -> None:
    script = Script()
    kept = checkpoints_of(script.pipeline, completed={"a": '"1"', "c": '"3"'})
    await run(script.pipeline, kept)
    assert script.did == ["b", "d"]


class Kept(BaseModel):
    kept: int


MADE: list[Kept] = []


async def makes_more(_: Any) -> Kept:
    MADE.append(Kept(kept=1))
    return MADE[-1]


async def reads_it(ctx: Any) -> str:
    value = ctx.result(makes_more)
    return repr((value, value is MADE[-1]))


async def test_a_stage_reads_at_once_what_a_checkpoint_would_give_it() -> None:
    stages = [Stage(makes_more), Stage(reads_it)]
    pipeline = Pipeline(name="more", payload=Clause, stages=stages)
    assert await run(pipeline) == Succeeded('"(Kept(kept=1), False)"')


async def test_a_plain_function_runs_beside_the_event_loop() -> None:
    where: list[threading.Thread] = []

    def plain(_: Any) -> int:
        where.append(threading.current_thread())
        return 5

    pipeline = Pipeline(name="plain", payload=Clause, stages=[Stage(plain)])
    assert await run(pipeline) == Succeeded("5")
    assert where[0] is not threading.main_thread()


def test_a_stage_that_exceeds_its_timeout_is_interrupted() -> None:
    async def main() -> None:
        async def hang(_: Any) -> None:
            await asyncio.Event().wait()

        stages = [Stage(hang, timeout=9.0)]
        pipeline = Pipeline(name="slow", payload=Clause, stages=stages)
        began = asyncio.get_running_loop().time()
        outcome = await run(pipeline)
        assert isinstance(outcome, Retry)
        assert outcome.failure.error_class is ErrorClass.TRANSIENT
        assert asyncio.get_running_loop().time() - began == pytest.approx(9.0)

    run_virtually(main())


async def test_each_stage_is_emitted_and_reports_progress() -> None:
    script, log, signs = Script(), Log(), []
    ctx = context(
        script.pipeline, log=log, caller=caller(progress=lambda: signs.append(1))
    )
    await run(script.pipeline, ctx=ctx)
    assert log.names() == ["stage.completed"] * 3
    assert len(signs) == 3


def test_started_stages_are_those_that_something_is_known_of() -> None:
    pipeline = Script().pipeline

    def begun(stage: str = "", affected: str = "", **facts: Any) -> str:
        kept = checkpoints_of(pipeline, **facts)
        failure = envelope(stage=stage)
        return "".join(names(started_stages(pipeline, failure, kept, {*affected})))

    assert begun() == ""
    assert begun("b") == "b"
    assert begun("compensate:b:1", completed={"a": ""}) == "a"
    assert begun(reached_stage="c") == "c"
    assert begun("a", "d") == "ad"
    assert begun("a", reached_stage="b", completed={"a": "", "b": "", "c": ""}) == "abc"


def test_a_run_needs_a_stage_and_one_that_is_done_does_not_run() -> None:
    pipeline = Script().pipeline
    kept = checkpoints_of(pipeline, completed=dict.fromkeys("abcd", "1"))
    assert next_stage(pipeline, kept) is None
    assert next_stage(pipeline, checkpoints_of(pipeline)) == 0
    kept = checkpoints_of(pipeline, completed=dict.fromkeys("acd", "1"))
    assert next_stage(pipeline, kept) == 1
    assert limits().max_attempts == 3


def test_the_next_stage_of_a_paused_job_waits() -> None:
    async def act() -> None:
        script = Script(fails={"a": closes})
        gate = ctx.caller.gate
        running = asyncio.create_task(run(script.pipeline, ctx=ctx))
        await asyncio.sleep(1)
        assert ["a"] == script.did
        gate.open()
        await running
        assert ["a", "b", "c", "d"] == script.did

    async def closes(_: Any) -> None:
        ctx.caller.gate.close()

    ctx = context(Script().pipeline)
    run_virtually(act())
