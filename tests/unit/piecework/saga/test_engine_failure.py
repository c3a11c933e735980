from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import Context, Dependency, Effect, Pipeline, Stage, named_call
from piecework.domain.outcome import Cancelled, CompensationResult, Retry
from piecework.domain.protocols import CancelRequestedError, ClaimLostError
from piecework.errors import PermanentError, StateError, StoreError, TransientError
from piecework.testing.memory_records import MemoryCheckpoints
from tests.unit.piecework.fakes import (
    Killed,
    checkpoints_of,
    context,
    envelope,
    names,
    run,
)
from tests.unit.piecework.script import Script, dead


class Nothing(BaseModel):
    pass


async def test_a_transient_failure_is_retried_from_the_checkpoint() -> None:
    script = Script(fails={"c": TransientError("later", retry_after=10.0)})
    kept = checkpoints_of(script.pipeline)
    outcome = await run(script.pipeline, kept)
    assert isinstance(outcome, Retry)
    assert outcome.delay == 14.0
    assert outcome.failure.stage == "c"
    assert set(kept.completed) == {"a", "b"}
    assert kept.failure is None
    assert script.compensated() == []


async def test_a_lost_state_is_tried_again_from_the_checkpoint() -> None:
    script = Script(fails={"c": StateError("lost")})
    assert isinstance(await run(script.pipeline), Retry)


async def test_the_last_attempt_is_not_retried() -> None:
    script = Script(fails={"c": TransientError("later")})
    outcome = await run(script.pipeline, attempt=3, max_attempts=3)
    assert (
        dead(outcome, CompensationResult.COMPENSATED).code == "runtime.stage.transient"
    )


async def test_the_last_attempt_but_one_is_retried() -> None:
    script = Script(fails={"c": TransientError("later")})
    outcome = await run(script.pipeline, attempt=2, max_attempts=3)
    assert isinstance(outcome, Retry)


async def test_a_failure_is_described_with_its_place_and_time() -> None:
    script = Script(fails={"b": PermanentError("no", code="llm.content.filtered")})
    ctx = context(script.pipeline, attempt=2)
    failure = dead(await run(script.pipeline, ctx=ctx), CompensationResult.COMPENSATED)
    assert (failure.stage, failure.attempt) == ("b", 2)
    assert failure.correlation_id == "job/7"
    assert failure.at == "2023-11-14T22:13:20.000Z"


async def test_an_unreadable_checkpoint_is_a_failure_and_not_a_crash() -> None:
    script = Script()
    kept = checkpoints_of(
        script.pipeline, completed={"a": '"1"', "b": "not json"}, reached_stage="c"
    )
    outcome = await run(script.pipeline, kept)
    failure = dead(outcome, CompensationResult.COMPENSATED)
    assert (failure.code, failure.stage) == ("runtime.value.unreadable", "b")
    assert script.did == ["undo c", "undo b", "undo a"]


async def test_an_unreadable_checkpoint_does_not_stop_compensation() -> None:
    script = Script()
    kept = checkpoints_of(
        script.pipeline,
        completed={"a": "not json", "b": '"2"'},
        failure=envelope(stage="c"),
    )
    ctx = context(script.pipeline)
    assert dead(
        await run(script.pipeline, kept, ctx=ctx), CompensationResult.COMPENSATED
    )
    assert script.compensated() == ["undo c", "undo b", "undo a"]
    assert ctx.values == {"b": "2"}


async def test_a_store_error_is_not_the_stages_failure() -> None:
    script = Script(fails={"b": StoreError("the table does not answer")})
    with pytest.raises(StoreError):
        await run(script.pipeline)
    assert script.compensated() == []


async def test_a_checkpoint_that_cannot_be_written_is_not_the_stages_failure() -> None:
    @dataclass
    class Broken(MemoryCheckpoints):
        async def complete(self, *_: Any) -> None:
            message = "the table does not answer"
            raise StoreError(message)

    script = Script()
    with pytest.raises(StoreError):
        await run(script.pipeline, Broken(names(script.pipeline.stages)))


@pytest.mark.parametrize("error", [ClaimLostError(), Killed()])
async def test_errors_that_end_the_worker_or_the_claim_pass_through(
    error: BaseException,
) -> None:
    script = Script(fails={"b": error})
    with pytest.raises(type(error)):
        await run(script.pipeline)
    assert script.compensated() == []


async def test_an_interrupt_passes_through() -> None:
    async def hangs(_: Any) -> None:
        asyncio.get_running_loop().call_soon(work.cancel)
        await asyncio.Event().wait()

    script = Script(fails={"b": hangs})
    work = asyncio.create_task(run(script.pipeline))
    with pytest.raises(asyncio.CancelledError):
        await work
    assert script.compensated() == []


async def test_an_unrequested_cancellation_is_a_transient_failure() -> None:
    script = Script(fails={"b": asyncio.CancelledError()})
    outcome = await run(script.pipeline)
    assert isinstance(outcome, Retry)
    assert "runtime.stage.transient" == outcome.failure.code


async def test_a_group_of_the_stages_own_errors_is_its_failure() -> None:
    script = Script(fails={"b": ExceptionGroup("two", [ValueError(), KeyError()])})
    assert dead(await run(script.pipeline), CompensationResult.COMPENSATED)


async def test_a_cancel_stops_the_chunk_at_the_stage_boundary() -> None:
    @dataclass
    class Asked(MemoryCheckpoints):
        async def complete(self, index: int, value: str, following: str) -> None:
            if index == 1:
                raise CancelRequestedError
            await MemoryCheckpoints.complete(self, index, value, following)

    script = Script()
    kept = Asked(names(script.pipeline.stages))
    outcome = await run(script.pipeline, kept)
    assert isinstance(outcome, Cancelled)
    assert script.did == ["a", "b"]
    assert set(kept.completed) == {"a"}


async def test_a_failed_stage_waits_for_its_calls_in_flight() -> None:
    answered: list[str] = []

    @named_call("slow")
    async def slow(*, idempotency_key: str) -> str:
        del idempotency_key
        for _ in range(50):  # turns of the loop: far more than an undo takes
            await asyncio.sleep(0)
        answered.append("slow")
        return "done"

    @named_call("refused")
    async def refused(*, idempotency_key: str) -> str:
        del idempotency_key
        raise PermanentError("no", code="tool.test.no")

    shop = Dependency("shop", effect=Effect.PROVIDER_IDEMPOTENT)

    async def both(ctx: Context[Any]) -> list[str]:
        return await asyncio.gather(ctx.call(shop, slow), ctx.call(shop, refused))

    async def undo(ctx: Context[Any]) -> None:
        del ctx
        answered.append("undone")

    pipeline = Pipeline("both", payload=Nothing, stages=[Stage(both, compensate=undo)])
    await run(pipeline)
    assert answered == ["slow", "undone"]


async def test_an_interrupt_ends_the_calls_that_a_failed_stage_has_left() -> None:
    ends: list[str] = []

    @named_call("hangs")
    async def hangs(*, idempotency_key: str) -> str:
        del idempotency_key
        try:
            return await asyncio.Event().wait() and ""
        finally:
            ends.append("cut off")

    @named_call("refused")
    async def refused(*, idempotency_key: str) -> str:
        del idempotency_key
        asyncio.get_running_loop().call_later(0.01, work.cancel)
        raise PermanentError("no", code="tool.test.no")

    mill = Dependency("mill")

    async def both(ctx: Context[Any]) -> list[str]:
        return await asyncio.gather(ctx.call(mill, hangs), ctx.call(mill, refused))

    pipeline = Pipeline("both", payload=Nothing, stages=[Stage(both)])
    work = asyncio.create_task(run(pipeline))
    with pytest.raises(asyncio.CancelledError):
        await work
    assert ends == ["cut off"]
