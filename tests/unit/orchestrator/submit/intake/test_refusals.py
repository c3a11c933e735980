"""All refused rows are told in one pass, or left out, or made dead letters."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pydantic import BaseModel

from piecework import Context, Pipeline, Stage
from piecework.domain.payload import refusal_of, row_of
from piecework.errors import PermanentError, UsageError
from piecework_orchestrator.submit.intake.on_invalid import OnInvalid
from piecework_orchestrator.submit.intake.refusals import Refusals
from piecework_orchestrator.submit.intake.rows import row_chunks
from piecework_orchestrator.submit.intake.source import chunk_inputs


class Order(BaseModel):
    name: str
    price: float


async def ship(ctx: Context[Order]) -> str:
    return ctx.payload.name


def ordered_by(order: Order) -> str:
    if order.name == "vip":
        raise PermanentError("no order", code="runtime.stage.permanent")
    return order.name


ORDERS = Pipeline("orders", payload=Order, stages=[Stage(ship)])

CSV = "name,price\na,1\nb,x\nc\nd,4\ne,y\n"
LINES = """{"name": "a", "price": 1}
{"name": "b", "price": "x"}

not json
{"name": "d", "price": 4}
{"name": "e", "prise": 4}
{"name": "f", "price": 1, "colour": 2}
"""
ROWS: list[Any] = [
    {"name": "a", "price": 1},
    {"name": "b", "price": "x"},
    7,
    Order(name="d", price=4),
    Order.model_construct(name=5, price=4),  # type: ignore[arg-type]
]


def inputs(folder: Path, kind: str, refusals: Refusals) -> Any:
    if kind == "program":
        return row_chunks(ROWS, ORDERS, refusals=refusals)
    path = folder / f"rows.{kind}"
    if kind == "parquet":
        times = pa.array([0, 2**62, 0, 2**62], pa.timestamp("us"))
        cells = {"name": list("abcd"), "price": [1.0, 2.0, None, 4.0], "due": times}
        parquet.write_table(pa.table(cells), path)
        return chunk_inputs(str(path), DUE, refusals=refusals)
    path.write_text(CSV if kind == "csv" else LINES)
    return chunk_inputs(str(path), ORDERS, refusals=refusals)


class Due(Order):
    due: datetime | None = None


DUE = Pipeline("due", payload=Due, stages=[Stage(ship)])

CASES = [
    ("csv", ["line 3", "line 4", "line 6"], 2),
    ("jsonl", ["line 2", "line 4", "line 6", "line 7"], 2),
    ("parquet", ["row 2", "row 3", "row 4"], 1),
    ("program", ["row 2", "row 3", "row 5"], 2),
]


@pytest.mark.parametrize(("kind", "places", "kept"), CASES)
async def test_all_refused_rows_are_named_in_one_pass(
    kind: str, places: list[str], kept: int, tmp_path: Path
) -> None:
    chunks = inputs(tmp_path, kind, Refusals())
    await anext(chunks)  # after the first refused row nothing more is stored
    with pytest.raises(UsageError) as refused:
        await anext(chunks)
    what = "payload.invalid" if kind == "program" else "rows.invalid_line"
    assert refused.value.code == f"input.{what}"
    told = refused.value.message.lower()
    assert f"{len(places)} rows of " in told
    assert all(place in told for place in places)
    assert "--invalid skip" in refused.value.next_step


@pytest.mark.parametrize(("kind", "places", "kept"), CASES)
async def test_refused_rows_are_left_out_and_counted(
    kind: str, places: list[str], kept: int, tmp_path: Path
) -> None:
    refusals = Refusals(OnInvalid.SKIP)
    chunks = [chunk async for chunk in inputs(tmp_path, kind, refusals)]
    assert len(chunks) == kept == refusals.kept
    assert refusals.facts() == {"left_out_rows": len(places), "left_out": places}
    assert len(refusals.lines()) == len(places)


@pytest.mark.parametrize(("kind", "places", "kept"), CASES)
async def test_a_refused_row_keeps_its_data_and_the_reason_as_a_dead_letter(
    kind: str, places: list[str], kept: int, tmp_path: Path
) -> None:
    refusals = Refusals(OnInvalid.DEAD)
    found = [json.loads(c.payload) async for c in inputs(tmp_path, kind, refusals)]
    dead = [payload for payload in found if refusal_of(payload) is not None]
    assert (len(found), len(dead)) == (kept + len(places), len(places))
    for payload, place in zip(dead, places, strict=True):
        assert place in str(refusal_of(payload)).lower()
    rows = {
        "csv": [{"name": "b", "price": "x"}, None, {"name": "e", "price": "y"}],
        "jsonl": [
            {"name": "b", "price": "x"},
            "not json",
            {"name": "e", "prise": 4},
            {"name": "f", "price": 1, "colour": 2},
        ],
        "parquet": [None, {"name": "c", "price": None, "due": None}, None],
        "program": [{"name": "b", "price": "x"}, 7, {"name": 5, "price": 4.0}],
    }[kind]
    given = [row_of(payload) for payload in dead]
    if kind == "parquet":
        given[1]["due"] = None
    assert given == rows
    assert refusals.facts() == {}


async def test_twenty_are_named_and_the_others_counted_in_flat_memory(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("name,price\n" + "a,x\n" * 5_000)
    refusals = Refusals()
    with pytest.raises(UsageError) as refused:
        [chunk async for chunk in chunk_inputs(str(path), ORDERS, refusals=refusals)]
    assert refused.value.message.count("does not fit Order: price") == 20
    assert "5,000 rows of " in refused.value.message
    assert "… and 4,980 more" in refused.value.message
    assert len(refusals.errors) == 20


async def test_an_input_without_a_valid_row_is_refused_though_others_are_left_out() -> (
    None
):
    refusals = Refusals(OnInvalid.SKIP)
    with pytest.raises(UsageError) as refused:
        [c async for c in row_chunks([{"name": "a"}], ORDERS, refusals=refusals)]
    assert refused.value.code == "input.rows.empty"
    assert "price: Field required" in refused.value.message


async def test_one_error_stays_what_it_is_and_several_of_one_code_keep_it() -> None:
    ordered = Pipeline("o", payload=Order, stages=[Stage(ship)], ordered_by=ordered_by)
    vip = {"name": "vip", "price": 1}
    for rows in ([vip], [vip, vip]):
        with pytest.raises((UsageError, PermanentError)) as refused:
            [chunk async for chunk in row_chunks(rows, ordered)]
        assert refused.value.code == "runtime.stage.permanent"


async def test_a_document_has_no_rows_to_leave_out(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("text")
    for source in (tmp_path, tmp_path / "a.md"):
        chunks = chunk_inputs(str(source), ORDERS, refusals=Refusals(OnInvalid.SKIP))
        with pytest.raises(UsageError, match="has no rows to leave out"):
            await anext(chunks)


async def test_a_row_that_is_too_large_becomes_a_dead_letter_without_its_data() -> None:
    row, refusals = {"name": "x" * 300_000, "price": 1}, Refusals(OnInvalid.DEAD)
    (chunk,) = [c async for c in row_chunks([row], ORDERS, refusals=refusals)]
    payload = json.loads(chunk.payload)
    assert row_of(payload) is None
    assert "has 300,0" in str(refusal_of(payload))
