"""Guarantee: a job's calls are a table that a team's tools read, one row a call."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from pydantic import BaseModel

from piecework import (
    Context,
    Dependency,
    Effect,
    PermanentError,
    Pipeline,
    Results,
    Stage,
)
from piecework.client import Client
from piecework.dependency import Usage
from piecework.errors import NotFoundError, UsageError
from piecework.settings import Settings
from piecework_orchestrator.results.call_export import COLUMNS
from piecework_simulation.in_process import InProcessAws, worker_beside

CHUNKS = 258  # two partitions
model = Dependency(
    "model", layer="llm", usage=lambda n: Usage(10, 2, usd=0.001 * n, model="m-1")
)
bank = Dependency("bank", effect=Effect.PROVIDER_IDEMPOTENT)


class Row(BaseModel):
    """A payload."""

    n: int


async def score(n: int) -> int:
    """Answer the first ones; refuse one."""
    if n == 7:
        raise PermanentError("=refused", code="tool.stock.none")
    return n


async def pay(n: int, idempotency_key: str = "") -> int:
    """Act."""
    return n


async def review(ctx: Context[Row]) -> int:
    """Make two calls; every fifth chunk makes none."""
    if ctx.payload.n % 5 == 4:
        return 0
    return await ctx.call(model, score, ctx.payload.n)


async def act(ctx: Context[Row]) -> int:
    """Pay for the first ones."""
    return await ctx.call(bank, pay, ctx.payload.n) if ctx.payload.n < 3 else 0


async def total(results: Results[int]) -> int:
    """Make a call in the join."""
    return await results.call(model, score, 1)


reviews = Pipeline(
    "reviews", payload=Row, stages=[Stage(review), Stage(act)], join=total
)


def queries(client: Client) -> int:
    """Return how often a client has queried a table."""
    accounts = client.runtime.cost.accounts.values()
    return sum(account.counts.get("op__Query__requests", 0) for account in accounts)


async def test_each_format_has_one_row_a_call_in_the_order_of_the_lists(
    tmp_path: Path,
) -> None:
    aws = InProcessAws(Settings(receive_wait_s=1, max_chunks=64))
    async with Client(runtime=aws.runtime()) as client:
        rows = [Row(n=n) for n in range(CHUNKS)]
        job = await client.submit(reviews, rows, id="j-1")
        async with worker_beside(aws, {"reviews": reviews}, [__name__]):
            await job.wait(timeout=60)
        expected = [
            (str(n), call["call"], call["dependency"], call["end"], call["usd"])
            for n in (*range(CHUNKS),)
            for call in await job.calls(n)
        ]
        whole = tmp_path / "calls.parquet"
        before = queries(client)
        number = await job.export_calls(whole)
        # Two partitions, of a page or two each, whatever the number of their chunks.
        assert queries(client) - before <= 10_000  # in thousandths
        table = parquet.read_table(whole)
        found: list[dict[str, Any]] = table.to_pylist()
        lines, cells = tmp_path / "calls.jsonl", tmp_path / "calls.csv"
        assert number == await job.export_calls(lines) == await job.export_calls(cells)
        one = tmp_path / "one.jsonl"
        assert await job.export_calls(one, chunk=0) == 2
        with pytest.raises(UsageError):
            await job.export_calls(tmp_path / "calls.txt")
        with pytest.raises(NotFoundError):
            await job.export_calls(one, chunk=9_999)
        assert one.read_text()  # a refused export leaves the file

    names = ("chunk", "call", "dependency", "end", "usd")
    rows_ = [tuple(row[name] for name in names) for row in found]
    assert rows_[:-1] == expected
    assert rows_[-1][:3] == ("join", 1, "model")
    assert number == len(found)
    assert table.column_names == list(COLUMNS)
    (failed,) = [row for row in found if row["end"] == "failed"]
    assert ("7", "tool.stock.none") == (failed["chunk"], failed["code"])
    assert {"DONE"} == {row["effect"] for row in found if row["dependency"] == "bank"}
    assert found == [json.loads(line) for line in lines.read_text().splitlines()]
    with cells.open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [row["key"] for row in read] == [row["key"] for row in found]
