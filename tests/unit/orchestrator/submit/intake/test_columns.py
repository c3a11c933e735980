"""Columns that no field reads are refused, whatever the kind of input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    model_validator,
)

from piecework import Context, Pipeline, Stage
from piecework.domain.chunk_input import ChunkInput
from piecework.errors import UsageError
from piecework_orchestrator.submit.intake.rows import row_chunks
from piecework_orchestrator.submit.intake.source import chunk_inputs


class Doc(BaseModel):
    id: str = ""
    text: str = ""


class Allowing(Doc):
    model_config = ConfigDict(extra="allow")


class Ignoring(Doc):
    model_config = ConfigDict(extra="ignore")


class Forbidding(Doc):
    model_config = ConfigDict(extra="forbid")


class Renaming(Doc):
    @model_validator(mode="before")
    @classmethod
    def old_names(cls, row: dict[str, Any]) -> dict[str, Any]:
        return {"id": row.get("key", row.get("id")), "text": row.get("text", "")}


class Checking(Doc):
    @model_validator(mode="after")
    def same(self) -> Checking:
        return self


class Aliased(BaseModel):
    id: str = Field("", alias="Id")
    text: str = Field("", validation_alias=AliasChoices("body", AliasPath("x", "y")))


class ByName(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    id: str = Field("", alias="Id")


class Blank(BaseModel):
    text: str = Field("", alias=" text")


class Part(BaseModel):
    words: str = ""


class Required(BaseModel):
    words: str


class Other(BaseModel):
    kind: str
    words: str = ""


class Nested(BaseModel):
    part: Part | None = None
    parts: list[Part | Other] = []
    by_name: dict[str, Part] = {}
    free: dict[str, Any] = {}


class Rows(RootModel[list[Part]]):
    pass


async def read(ctx: Context[Any]) -> str:
    return str(ctx.payload)


def pipeline(model: type[BaseModel]) -> Pipeline:
    return Pipeline("docs", payload=model, stages=[Stage(read)])


def csv(row: dict[str, str], folder: Path) -> str:
    path = folder / "rows.csv"
    path.write_text(f"{','.join(row)}\n{','.join(row.values())}\n")
    return str(path)


def json_lines(row: dict[str, Any], folder: Path) -> str:
    path = folder / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n")
    return str(path)


def table(row: dict[str, Any], folder: Path) -> str:
    path = folder / "rows.parquet"
    parquet.write_table(pa.table({name: [row[name]] for name in row}), path)
    return str(path)


Write = Callable[[dict[str, Any], Path], str]
FILES: list[Write] = [csv, json_lines, table]


async def read_file(source: str, model: type[BaseModel]) -> list[ChunkInput]:
    return [chunk async for chunk in chunk_inputs(source, pipeline(model))]


async def read_program(row: Any, model: type[BaseModel]) -> list[ChunkInput]:
    return [chunk async for chunk in row_chunks([row], pipeline(model))]


REFUSED = [
    (
        Required,
        {"ident": "a", "Words": "b"},
        "'ident', 'Words' (did you mean 'words'?)",
    ),
    (Doc, {"ID": "a", "Text": "b"}, "'ID' (did you mean 'id'?), 'Text' (did you mean"),
    (Doc, {"id": "a", "txt": "b"}, "'txt' (did you mean 'text'?)"),
    (Doc, {"id": "a", "text": "b", "tex": "c"}, "'tex'."),
    (Doc, {"id": "a", "colour": "b"}, "'colour'."),
    (Forbidding, {"id": "a", "colour": "b"}, "'colour'."),
    (Checking, {"id": "a", "colour": "b"}, "'colour'."),
    (Aliased, {"id": "a"}, "'id' (did you mean 'Id'?)"),
    (Aliased, {"text": "a"}, "'text'."),
    (Doc, {f"c{n}": "a" for n in range(8)}, "'c4', and 3 more."),
]


@pytest.mark.parametrize(("model", "row", "said"), REFUSED)
async def test_a_column_that_no_field_reads_is_refused_with_the_name_that_is_meant(
    model: type[BaseModel], row: dict[str, str], said: str, tmp_path: Path
) -> None:
    for write in FILES:
        with pytest.raises(UsageError) as refused:
            await read_file(write(row, tmp_path), model)
        assert refused.value.code == "input.columns.unknown"
        assert said in refused.value.message
        assert 'ConfigDict(extra="ignore")' in refused.value.next_step
    with pytest.raises(UsageError) as refused:
        await read_program(row, model)
    assert refused.value.code == "input.columns.unknown"
    assert said in refused.value.message


READ = [
    (Allowing, {"id": "a", "colour": "b"}, {"id": "a", "text": "", "colour": "b"}),
    (Ignoring, {"id": "a", "colour": "b"}, {"id": "a", "text": ""}),
    (Renaming, {"key": "a"}, {"id": "a", "text": ""}),
    (Aliased, {"Id": "a", "body": "b"}, {"Id": "a", "text": "b"}),
    (ByName, {"id": "a"}, {"Id": "a"}),
    (Doc, {" id": "a", "text\t": "b"}, {"id": "a", "text": "b"}),
    (Blank, {" text": "b"}, {" text": "b"}),
]


@pytest.mark.parametrize(("model", "row", "stored"), READ)
async def test_a_model_may_permit_others_and_blanks_around_a_name_do_not_count(
    model: type[BaseModel],
    row: dict[str, str],
    stored: dict[str, str],
    tmp_path: Path,
) -> None:
    for write in FILES:
        (chunk,) = await read_file(write(row, tmp_path), model)
        assert json.loads(chunk.payload) == stored
    (chunk,) = await read_program(row, model)
    assert json.loads(chunk.payload) == stored


@pytest.mark.parametrize(
    ("content", "separator"),
    [
        ("id;text\na;hello\n", "by `;`"),
        ("ID;Text\na;hello\n", "by `;`"),
        ("id\ttext\na\thello\n", "by a tab"),
        ("id | text\na|hello\n", "by `|`"),
    ],
)
async def test_another_delimiter_is_named(
    content: str, separator: str, tmp_path: Path
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(content)
    with pytest.raises(UsageError, match="with commas between the cells") as refused:
        await read_file(str(path), Doc)
    assert separator in refused.value.message


async def test_two_columns_that_differ_only_in_blanks_are_refused(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("text, text\na,b\n")
    with pytest.raises(UsageError, match="several columns text"):
        await read_file(str(path), Doc)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"part": {"word": "a"}}, "keys at part that no field of Part reads: 'word'"),
        ({"parts": [{"words": "a"}, {"kind": "b", "wrds": "c"}]}, "at parts.1 that no"),
        ({"by_name": {"x": {"words": "a", "y": 1}}}, "at by_name.x that no field"),
    ],
)
async def test_a_key_inside_a_row_is_read_too(
    row: dict[str, Any], said: str, tmp_path: Path
) -> None:
    for found in (
        read_file(json_lines(row, tmp_path), Nested),
        read_program(row, Nested),
    ):
        with pytest.raises(UsageError) as refused:
            await found
        assert refused.value.code == "input.columns.unknown"
        assert said in refused.value.message


async def test_what_is_a_dict_or_a_list_has_any_keys(tmp_path: Path) -> None:
    free = {"free": {"a": {"b": 1}}, "parts": [{"kind": "x", "words": "y"}]}
    assert len(await read_file(json_lines(free, tmp_path), Nested)) == 1
    path = tmp_path / "lists.jsonl"
    path.write_text('[{"words": "a"}, {"word": "b"}]\n')
    with pytest.raises(UsageError, match=r"'word' .did you mean 'words'"):
        await read_file(str(path), Rows)
