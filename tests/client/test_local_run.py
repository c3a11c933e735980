"""Guarantee: a program runs a pipeline here, gets typed results, and goes on."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest
from pydantic import BaseModel

import piecework
from piecework import (
    Context,
    Dependency,
    PermanentError,
    Pipeline,
    Stage,
    Usage,
    UsageError,
    pipeline,
)
from piecework.client import Done, Failed
from piecework_simulation.state.file import opened


class Row(BaseModel):
    n: int


class Square(BaseModel):
    of: int
    value: int


ROWS = [Row(n=n) for n in range(6)]
service = Dependency("squares", usage=lambda _: Usage(10), estimate=lambda *_: 10)
#: The rows that the service was asked for; for those held it takes a minute.
asked: list[int] = []
held: list[int] = []
broken: list[int] = []


@service.call
async def square(n: int) -> int:
    asked.append(n)
    if n in held:
        await asyncio.sleep(60)
    return n * n


@pipeline
async def squares(row: Row) -> Square:
    value = await square(row.n)
    if row.n in broken:
        raise PermanentError("not <this> one", code="square.number.broken")
    return Square(of=row.n, value=value)


@pytest.fixture(autouse=True)
def unused() -> None:
    asked.clear()
    held.clear()
    broken.clear()


async def test_the_run_is_awaited_as_typed_results_in_the_order_of_the_rows() -> None:
    ran = await piecework.run(squares, ROWS)
    assert ran.values == [Square(of=n, value=n * n) for n in range(6)]
    assert (str(ran), ran.failed) == ("6 done, 0 failed", [])


async def test_the_chunks_are_iterated_as_they_end() -> None:
    seen = {item.chunk async for item in piecework.run(squares, ROWS)}
    assert seen == set(range(6))
    async with aclosing(aiter(piecework.run(squares, ROWS))) as items:
        assert isinstance(await anext(items), Done)


def test_a_script_iterates_and_waits_without_a_loop(tmp_path: Path) -> None:
    ran = piecework.run(squares, [{"n": 3}]).wait()
    assert ran.values == [Square(of=3, value=9)]
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"n": 1}\n{"n": 2}\n', encoding="utf-8")
    assert sorted(item.chunk for item in piecework.run(squares, rows)) == [0, 1]


async def test_what_failed_is_a_table() -> None:
    broken.append(2)
    ran = await piecework.run(squares, ROWS)
    (failed,) = ran.failed
    assert (failed.chunk, failed.error.code) == (2, "square.number.broken")
    head, headings, line = str(ran).splitlines()
    assert (head, headings.split()[0]) == ("5 done, 1 failed", "CHUNK")
    assert line.split(None, 3)[0] == "2"
    assert "not &lt;this&gt; one" in ran._repr_html_()


async def test_a_run_with_a_state_file_pays_once(tmp_path: Path) -> None:
    state = tmp_path / "squares.state"
    held.append(4)
    async with aclosing(aiter(piecework.run(squares, ROWS, state=state))) as items:
        for _ in range(5):
            await anext(items)
    held.clear()
    ran = await piecework.run(squares, ROWS, state=state)
    assert len(ran.done) == 6
    assert sorted(asked) == [0, 1, 2, 3, 4, 4, 5]  # one was in flight
    before = len(asked)
    again = await piecework.run(squares, ROWS, state=state)
    assert (again, len(asked)) == (ran, before)
    with pytest.raises(UsageError) as other:
        await piecework.run(squares, ROWS[:2], state=state)
    assert other.value.code == "run.input.changed"
    anew = await piecework.run(squares, ROWS[:2], state=state, fresh=True)
    assert (len(anew.done), len(asked)) == (2, before + 2)
    with opened(state), pytest.raises(UsageError) as taken:
        await piecework.run(squares, ROWS[:2], state=state)
    assert taken.value.code == "run.state.in_use"


async def test_a_spent_budget_ends_the_run_and_a_higher_one_goes_on(
    tmp_path: Path,
) -> None:
    state = tmp_path / "squares.state"
    less = await piecework.run(squares, ROWS, state=state, budget_tokens=30)
    assert (len(less.done), {each.status for each in less.failed}) == (3, {"CANCELLED"})
    assert all(isinstance(each, Failed) for each in less.failed)
    more = await piecework.run(squares, ROWS, state=state, budget_tokens=90)
    assert (len(more.done), sorted(asked)) == (6, list(range(6)))


class Batch(BaseModel):
    rows: list[Row]


async def total(ctx: Context[Batch]) -> int:
    found = await ctx.map(squares, ctx.payload.rows)
    return sum([each.value.value async for each in found])


totals = Pipeline("totals", payload=Batch, stages=[Stage(total)])


async def test_a_stage_maps_rows_and_a_run_that_was_left_pays_for_none_again(
    tmp_path: Path,
) -> None:
    """Only the parent is named: the worker has the pipeline of its children, too."""
    batches = [Batch(rows=ROWS[:3]), Batch(rows=ROWS[3:])]
    state = tmp_path / "run.state"
    held.append(5)
    async with aclosing(aiter(piecework.run(totals, batches, state=state))) as items:
        assert await anext(items) == Done(0, "row 1", 5)
    held.clear()
    ran = await piecework.run(totals, batches, state=state)
    assert ran.values == [5, 50]
    assert sorted(asked) == [0, 1, 2, 3, 4, 5, 5]
