"""`ctx.map` on the engine: what a stage gets back, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import Context, Dependency, PermanentError, Pipeline, Results, Stage
from piecework.domain.outcome import DeadLettered, Succeeded
from piecework.testing import killed_after, run_in_memory

service = Dependency("service")


class Row(BaseModel):
    n: int


class Batch(BaseModel):
    rows: int = 3
    bad: int = -1


@service.call
async def double(n: int) -> int:
    return 2 * n


@service.call
async def plan(rows: int) -> list[int]:
    return list(range(rows))


async def run_row(ctx: Context[Row]) -> int:
    if ctx.payload.n == 1_000:
        message = "too much"
        raise PermanentError(message, code="tool.input.invalid")
    return await double(ctx.payload.n)


child = Pipeline("child", payload=Row, stages=[Stage(run_row)])


def rows_of(numbers: Sequence[int], bad: int) -> list[Row]:
    return [Row(n=1_000 if n == bad else n) for n in numbers]


async def spread(ctx: Context[Batch]) -> dict[str, Any]:
    numbers = await plan(ctx.payload.rows)
    found = await ctx.map(child, rows_of(numbers, ctx.payload.bad))
    return {
        "status": found.status,
        "counts": [found.rows, found.succeeded, found.failed],
        "values": [[each.row, each.value] async for each in found],
        "failures": [
            [f.row, f.status, f.code, "too much" in f.message]
            async for f in found.failures()
        ],
    }


parent = Pipeline("parent", payload=Batch, stages=[Stage(spread)])


async def test_rows_come_back_in_order_with_their_failures() -> None:
    run = await run_in_memory(parent, [Batch(), Batch(bad=1), Batch(rows=0)])
    assert run.results == {
        0: {
            "status": "SUCCEEDED",
            "counts": [3, 3, 0],
            "values": [[0, 0], [1, 2], [2, 4]],
            "failures": [],
        },
        1: {
            "status": "PARTIAL",
            "counts": [3, 2, 1],
            "values": [[0, 0], [2, 4]],
            "failures": [[1, "DEAD", "tool.input.invalid", True]],
        },
        2: {
            "status": "SUCCEEDED",
            "counts": [0, 0, 0],
            "values": [],
            "failures": [],
        },
    }
    assert run.calls("double") == 5
    assert run.calls("plan") == 3  # the stage ran twice, and replayed its call


async def test_a_stage_that_is_killed_finds_its_child_again() -> None:
    async def sum_up(ctx: Context[Batch]) -> int:
        found = await ctx.map(child, [{"n": n} for n in range(ctx.payload.rows)])
        again = await ctx.map(child, [{"n": n} for n in range(ctx.payload.rows)])
        assert found.job != again.job  # the same rows asked for twice run twice
        return await double(sum(await found.values()) + sum(await again.values()))

    pipeline = Pipeline("sums", payload=Batch, stages=[Stage(sum_up)])
    faults = [killed_after("sum_up")]
    run = await run_in_memory(pipeline, [Batch()], faults=faults)
    assert run.results == {0: 24}
    assert run.calls("double") == 7


async def test_a_row_without_a_result_fails_who_asks_for_all() -> None:
    async def need_all(ctx: Context[Batch]) -> list[int]:
        found = await ctx.map(child, rows_of(range(3), ctx.payload.bad))
        return await found.values()

    pipeline = Pipeline("needs", payload=Batch, stages=[Stage(need_all)])
    run = await run_in_memory(pipeline, [Batch(bad=2)])
    outcome = run.outcomes[0]
    assert isinstance(outcome, DeadLettered)
    assert outcome.failure.code == "runtime.map.row_failed"
    assert "row 2 ended DEAD with tool.input.invalid" in outcome.failure.message


async def failure_of(stages: Sequence[Stage], payload: Batch | None = None) -> str:
    pipeline = Pipeline("parent", payload=Batch, stages=stages)
    run = await run_in_memory(pipeline, [payload or Batch()])
    outcome = run.outcomes[0]
    assert isinstance(outcome, DeadLettered), outcome
    return outcome.failure.code


async def test_a_pipeline_that_maps_itself_is_refused() -> None:
    async def loop(ctx: Context[Batch]) -> int:
        return (await ctx.map(looping[0], [Batch()])).rows

    looping = [Pipeline("parent", payload=Batch, stages=[Stage(loop)])]
    assert await failure_of([Stage(loop)]) == "pipeline.map.cycle"


async def test_nine_jobs_below_each_other_are_refused() -> None:
    levels = [child]
    for number in range(9):

        async def go_down(ctx: Context[Batch], below: Pipeline = levels[-1]) -> int:
            row: Any = Row(n=1) if below is child else Batch()
            found = await ctx.map(below, [row])
            return sum(await found.values())

        stage = Stage(go_down, name="go_down")
        levels.append(Pipeline(f"level-{number}", payload=Batch, stages=[stage]))
    run = await run_in_memory(levels[8], [Batch()])
    assert run.results == {0: 2}
    refused = await run_in_memory(levels[9], [Batch()])
    assert not isinstance(refused.outcomes[0], Succeeded)


async def test_a_compensation_and_a_join_cannot_map() -> None:
    refused: list[Any] = []

    async def fail(ctx: Context[Batch]) -> None:
        raise PermanentError("no", code="tool.input.invalid")

    async def undo(ctx: Context[Batch]) -> None:
        await try_to_map(ctx)

    async def join(results: Results[Any]) -> None:
        await try_to_map(results)

    async def try_to_map(ctx: Context[Any]) -> None:
        with pytest.raises(Exception, match=r"maps|waits") as error:
            await ctx.map(child, [Row(n=1)])
        refused.append(error.value.code)

    stages = [Stage(fail, compensate=undo, undo_if_failed=True)]
    pipeline = Pipeline("backs", payload=Batch, stages=stages, join=join)
    await run_in_memory(pipeline, [Batch()])
    assert refused == ["pipeline.map.invalid"] * 2


async def test_a_row_of_another_type_is_refused() -> None:
    async def wrong(ctx: Context[Batch]) -> None:
        await ctx.map(child, [{"n": "many"}])

    assert await failure_of([Stage(wrong)]) == "input.payload.invalid"
