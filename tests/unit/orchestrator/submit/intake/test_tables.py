"""Rows of CSV and Parquet files as chunk inputs."""

from __future__ import annotations

import csv
import json
import struct
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pydantic import AliasChoices, BaseModel, Field, create_model

from piecework import Context, Pipeline, Stage
from piecework.errors import UsageError
from piecework_orchestrator.submit.intake.source import chunk_inputs
from piecework_orchestrator.submit.intake.tables import validate_cells
from tests.unit.orchestrator.submit.intake.conftest import refusal
from tests.unit.orchestrator.submit.intake.test_s3 import Client


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


async def test_a_long_cell_leaves_the_limit_of_the_process(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    (tmp_path / "o.csv").write_text(f"name,price\n{'x' * (before + 1)},1\n")
    assert len((await payloads(tmp_path / "o.csv"))[0]["name"]) == before + 1
    assert csv.field_size_limit() == before


async def test_an_empty_cell_of_an_alias_becomes_the_default() -> None:
    class Aliased(BaseModel):
        pages: int = Field(1, alias="Pages")
        rest: int = Field(2, validation_alias=AliasChoices("Rest", "R"))
        name: str = Field(alias="Name")

    cells = {"Pages": "", "R": "", "Name": ""}
    found = validate_cells(Aliased, cells).model_dump()
    assert found == {"pages": 1, "rest": 2, "name": ""}


@pytest.mark.parametrize(
    ("column", "names", "code", "words"),
    [
        (pa.array([1]), "aa", "input.rows.invalid_line", "several columns a"),
        (
            pa.array([1000, 1], pa.timestamp("ns")),
            "ab",
            "input.rows.invalid_line",
            "Row 2 of .* column a of type timestamp",
        ),
        (
            pa.array([0] * 5 + [2**62], pa.timestamp("us")),
            "ab",
            "input.rows.invalid_line",
            r"Row 6 of .* column a",
        ),
        (
            pa.array([b"ok", b"\xff\xfe"]).cast(pa.string(), safe=False),
            "ab",
            "input.rows.invalid_line",
            "Row 2 of .* column a of type string .it is not UTF-8",
        ),
    ],
)
async def test_parquet_that_would_lose_a_column_or_a_time_is_refused(
    tmp_path: Path, column: pa.Array, names: str, code: str, words: str
) -> None:
    path = tmp_path / "o.parquet"
    parquet.write_table(pa.Table.from_arrays([column, column], list(names)), path)
    model = create_model("Pair", a=(Any, None), b=(Any, None))
    pairs = Pipeline("pairs", payload=model, stages=[Stage(ship)])
    with pytest.raises(UsageError, match=words) as refused:
        [each async for each in chunk_inputs(str(path), pairs)]
    assert refused.value.code == code


@pytest.mark.parametrize("column", ["name", "price"])
async def test_a_damaged_page_of_parquet_is_named_with_row_and_column(
    tmp_path: Path, column: str
) -> None:
    path = tmp_path / "o.parquet"
    table = pa.table({"name": ["abcdefgh" * 9] * 3_000, "price": [1.5] * 3_000})
    parquet.write_table(
        table,
        path,
        row_group_size=2_000,
        compression="none",
        use_dictionary=False,
        write_page_checksum=True,
    )
    assert len(await payloads(path)) == 3_000
    marks = {"name": b"abcdefgh" * 3, "price": struct.pack("<d", 1.5) * 3}
    content = bytearray(path.read_bytes())
    # In the second group of rows: without the checksum, it reads as another value.
    found = content.rfind(marks[column], 0, len(content) - 2_000)
    content[found + 3] ^= 1
    path.write_bytes(content)
    refused = await refusal(payloads(path))
    assert refused.code == "input.file.unreadable"
    assert f"column {column} is damaged at or after row 2001" in refused.message
    assert "again" in refused.next_step


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
        ("o.csv", 'name,price\nb,1\n"a,1\n', "input.file.unreadable", "line 3"),
        ("o.csv", "name\x00,price\n", "input.", "o.csv"),
        ("o.parquet", "not parquet", "input.file.unreadable", "o.parquet"),
    ],
)
async def test_a_wrong_table_is_named_with_line_and_column(
    tmp_path: Path, name: str, content: str, code: str, words: str
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    refused = await refusal(payloads(tmp_path / name))
    assert refused.code.startswith(code)
    assert words in refused.message
    assert refused.next_step


@pytest.mark.parametrize("suffix", ["csv", "PARQUET"])
async def test_a_table_in_s3_is_read_as_one_on_the_disk(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / "orders"
    if suffix == "csv":
        path.write_text("name,price\na,1.5\nb,x\n")
    else:
        parquet.write_table(pa.table({"name": ["a", "b"], "price": ["1.5", "x"]}), path)
    content, source = path.read_bytes(), f"s3://bucket/orders.{suffix}"
    s3 = Client(content[:7], content[7:])
    chunks = chunk_inputs(source, orders, s3=s3)
    first = json.loads((await anext(chunks)).payload)
    assert (first["name"], first["price"]) == ("a", 1.5)
    with pytest.raises(UsageError, match=f"of {source} does not fit Order: price"):
        await anext(chunks)
    assert s3.request == {"Bucket": "bucket", "Key": f"orders.{suffix}"}
