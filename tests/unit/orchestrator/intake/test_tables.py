"""Rows of CSV and Parquet files as chunk inputs."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pydantic import BaseModel

from piecework import Context, Pipeline, Stage
from piecework.errors import UsageError
from piecework_orchestrator.intake.source import chunk_inputs


class Order(BaseModel):
    """A payload."""

    name: str
    price: float
    due: date | None = None
    tags: list[str] = []


async def ship(ctx: Context[Order]) -> str:
    """Ship an order."""
    return ctx.payload.name


orders = Pipeline("orders", payload=Order, stages=[Stage(ship)])


async def payloads(path: Path) -> list[dict[str, Any]]:
    """Return the payloads of a file."""
    return [json.loads(each.payload) async for each in chunk_inputs(str(path), orders)]


async def test_the_columns_of_csv_are_the_fields(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    path.write_bytes(
        b'\xef\xbb\xbfname,price,due\r\n"Smith, Ann",1.5,2026-11-23\r\n'
        b'"two\r\nlines",2,\r\n'
    )
    none = {"tags": []}
    assert await payloads(path) == [
        {"name": "Smith, Ann", "price": 1.5, "due": "2026-11-23", **none},
        {"name": "two\r\nlines", "price": 2.0, "due": None, **none},
    ]


async def test_parquet_keeps_the_types_of_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "orders.parquet"
    columns = {"name": ["a", "b"], "price": [1.5, 2.0], "tags": [["x"], []]}
    parquet.write_table(pa.table({**columns, "due": [date(2026, 1, 1), None]}), path)
    found = await payloads(path)
    assert [each["tags"] for each in found] == [["x"], []]
    assert [each["due"] for each in found] == ["2026-01-01", None]


@pytest.mark.parametrize(
    ("name", "content", "code", "words"),
    [
        ("o.csv", "name,price\na,1\nb,x\n", "input.rows.invalid_line", "Line 3"),
        ("o.csv", "name,price\na,x\n", "input.rows.invalid_line", "price"),
        ("o.csv", "name,price\na\n", "input.rows.invalid_line", "Line 2"),
        ("o.csv", "name,price\na,1,2\n", "input.rows.invalid_line", "Line 2"),
        (
            "o.csv",
            "name,name,price\na,b,1\n",
            "input.rows.invalid_line",
            "columns name",
        ),
        ("o.csv", "name,price\n", "input.rows.empty", "no row"),
        ("o.csv", 'name,price\n"a,1\n', "input.file.unreadable", "o.csv"),
        ("o.csv", "name\x00,price\n", "input.", "o.csv"),
        ("o.parquet", "not parquet", "input.file.unreadable", "o.parquet"),
    ],
)
async def test_a_wrong_table_is_named_with_line_and_column(
    tmp_path: Path, name: str, content: str, code: str, words: str
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UsageError) as refused:
        await payloads(tmp_path / name)
    assert refused.value.code.startswith(code)
    assert words in refused.value.message
    assert refused.value.next_step
