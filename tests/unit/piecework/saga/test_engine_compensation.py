from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from piecework.domain.identity import named_call
from piecework.domain.outcome import CompensationResult, DeadLettered
from piecework.errors import ErrorEnvelope, PermanentError, StoreError, TransientError
from piecework.pipelines import Pipeline, Stage
from piecework.testing.memory_records import MemoryCheckpoints
from tests.unit.piecework.fakes import (
    Clause,
    Killed,
    caller,
    checkpoints_of,
    context,
    envelope,
    names,
    run,
)
from tests.unit.piecework.script import BANK, Script, dead


@pytest.mark.parametrize("failing", list("abcd"))
async def test_a_permanent_failure_compensates_the_started_stages_in_reverse(
    failing: str,
) -> None:
    script = Script(fails={failing: PermanentError("no")})
    assert (
        dead(await run(script.pipeline), CompensationResult.COMPENSATED).stage
        == failing
    )
    begun = "abcd"[: "abcd".index(failing) + 1]
    assert script.did[: len(begun)] == list(begun)
    assert script.compensated() == [f"undo {name}" for name in reversed(begun)]


async def test_only_stages_with_a_compensation_are_compensated() -> None:
    script = Script(undoable="ac", fails={"d": PermanentError("no")})
    await run(script.pipeline)
    assert script.compensated() == ["undo c", "undo a"]


async def test_without_a_compensation_none_is_needed() -> None:
    script = Script(undoable="", fails={"d": PermanentError("no")})
    kept = checkpoints_of(script.pipeline)
    assert dead(await run(script.pipeline, kept), CompensationResult.NOT_NEEDED)
    assert kept.failure is not None


async def test_the_compensation_is_recorded_before_its_first_step() -> None:
    script = Script(fails={"b": PermanentError("no")})

    @dataclass
    class Noting(MemoryCheckpoints):
        async def begin_compensation(self, failure: ErrorEnvelope, stage: str) -> None:
            script.did.append(f"turn at {stage}")
            await MemoryCheckpoints.begin_compensation(self, failure, stage)

        async def record_compensation(
            self, stage: str, failure: ErrorEnvelope | None
        ) -> None:
            script.did.append(f"kept {stage}")
            await MemoryCheckpoints.record_compensation(self, stage, failure)

    await run(script.pipeline, Noting(names(script.pipeline.stages)))
    back = ["turn at b", "undo b", "kept b", "undo a", "kept a"]
    assert script.did == ["a", "b", *back]


async def test_a_stage_that_an_earlier_claim_reached_is_compensated_too() -> None:
    script = Script()
    kept = checkpoints_of(
        script.pipeline,
        completed={"a": '"1"'},
        reached_stage="b",
        failure=envelope(stage="a"),
    )
    await run(script.pipeline, kept)
    assert script.compensated() == ["undo b", "undo a"]


async def test_a_failed_compensation_is_recorded_and_the_others_still_run() -> None:
    script = Script(fails={"c": PermanentError("no"), "undo b": TransientError("oh")})
    kept = checkpoints_of(script.pipeline)
    outcome = await run(script.pipeline, kept)
    assert dead(outcome, CompensationResult.FAILED).stage == "c"
    assert outcome.uncompensated_stages == ("b",)
    assert script.compensated() == ["undo c", "undo b", "undo a"]
    failed = kept.compensated["b"]
    assert failed is not None
    assert (failed.code, failed.stage) == ("runtime.stage.transient", "compensate:b:1")
    assert (kept.compensated["a"], kept.compensated["c"]) == (None, None)


async def test_a_compensation_has_the_time_of_its_stage() -> None:
    async def no(_: Any) -> None:
        message = "no"
        raise PermanentError(message)

    async def hang(_: Any) -> None:
        await asyncio.Event().wait()

    stages = [Stage(no, compensate=hang, timeout=0.0, undo_if_failed=True)]
    pipeline = Pipeline(name="slow", payload=Clause, stages=stages)
    outcome = await run(pipeline)
    assert isinstance(outcome, DeadLettered)
    assert outcome.uncompensated_stages == ("no",)


async def test_an_outage_during_compensation_is_not_a_failed_compensation() -> None:
    script = Script(fails={"b": PermanentError("no"), "undo b": StoreError("gone")})
    kept = checkpoints_of(script.pipeline)
    with pytest.raises(StoreError):
        await run(script.pipeline, kept)
    assert kept.compensated == {}


async def test_each_compensation_reports_progress() -> None:
    signs: list[int] = []
    script = Script(fails={"c": PermanentError("no")})
    one = caller(progress=lambda: signs.append(1))
    await run(script.pipeline, ctx=context(script.pipeline, caller=one))
    assert len(signs) == 2 + 3


async def test_the_calls_of_a_compensation_differ_in_each_generation() -> None:
    keys: list[str] = []

    @named_call("release")
    async def release(*, idempotency_key: str) -> None:
        keys.append(idempotency_key)

    async def undo(ctx: Any) -> None:
        await ctx.call(BANK, release)

    for gen in (1, 2):
        script = Script(fails={"a": PermanentError("no"), "undo a": undo})
        ctx = context(script.pipeline, caller=caller(gen=gen))
        await run(script.pipeline, ctx=ctx)
    assert len(set(keys)) == 2


@dataclass
class Fragile(MemoryCheckpoints):
    """Dies before or after the n-th write; a worker may die at any await."""

    writes: int = 0
    die_at: int = -1
    after: bool = False
    log: list[str] = field(default_factory=list)

    async def begin_compensation(self, failure: ErrorEnvelope, stage: str) -> None:
        self.die(after=False)
        await MemoryCheckpoints.begin_compensation(self, failure, stage)
        self.die(after=True)

    async def record_compensation(
        self, stage: str, failure: ErrorEnvelope | None
    ) -> None:
        self.die(after=False)
        await MemoryCheckpoints.record_compensation(self, stage, failure)
        self.log.append(stage)
        self.die(after=True)

    def die(self, *, after: bool) -> None:
        if after is self.after:
            self.writes += 1
            if self.writes == self.die_at:
                raise Killed


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("die_at", [1, 2, 3, 4])
async def test_the_worker_after_a_dead_one_continues_the_compensation(
    die_at: int,
    after: bool,  # noqa: FBT001
) -> None:
    script = Script(fails={"c": PermanentError("no")})
    kept = Fragile(names(script.pipeline.stages), die_at=die_at, after=after)
    with pytest.raises(Killed):
        await run(script.pipeline, kept)
    on_record = kept.failure is not None
    kept.reached_stage = kept.cursor
    script.did.append("next worker")
    outcome = await run(script.pipeline, kept, attempt=2)
    assert dead(outcome, CompensationResult.COMPENSATED).stage == "c"
    assert kept.log == ["c", "b", "a"]
    after_death = script.did[script.did.index("next worker") + 1 :]
    if on_record:
        assert all(did.startswith("undo") for did in after_death)


@pytest.mark.parametrize("dying", ["undo a", "undo b", "undo c"])
async def test_a_compensation_in_which_a_worker_dies_runs_again(
    dying: str,
) -> None:
    script = Script(fails={"c": PermanentError("no"), dying: Killed()})
    kept = checkpoints_of(script.pipeline)
    with pytest.raises(Killed):
        await run(script.pipeline, kept)
    begun = script.compensated()
    del script.fails[dying]
    script.did.clear()
    assert dead(
        await run(script.pipeline, kept, attempt=2), CompensationResult.COMPENSATED
    )
    assert script.did[0] == dying == begun[-1]
    assert begun[:-1] + script.did == ["undo c", "undo b", "undo a"]


async def test_a_failed_compensation_is_not_retried_and_still_reported() -> None:
    script = Script()
    kept = checkpoints_of(
        script.pipeline,
        completed={"a": '"1"', "b": '"2"'},
        compensated={"b": envelope()},
        failure=envelope(stage="b"),
    )
    outcome = await run(script.pipeline, kept)
    assert script.compensated() == ["undo a"]
    assert isinstance(outcome, DeadLettered)
    assert outcome.uncompensated_stages == ("b",)
