from __future__ import annotations

import gzip
import io
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from piecework import Pipeline
from piecework.domain.chunk_input import ChunkInput
from piecework.errors import UsageError
from piecework_orchestrator.submit.intake.limits import IntakeLimits
from piecework_orchestrator.submit.intake.source import chunk_inputs
from tests.unit.orchestrator.submit.intake.conftest import refusal


def stdin(*lines: bytes) -> dict[str, Any]:
    return {"source": "-", "stdin": io.BytesIO(b"\n".join(lines))}


async def test_each_line_is_a_chunk_labelled_by_its_number(intake: Any) -> None:
    expected = [
        ChunkInput("line 1", b'{"text":"a","position":0}'),
        ChunkInput("line 3", b'{"text":"b","position":7}'),
    ]
    lines = b'{"text": "a"}\r', b"  ", b'{"position": 7, "text": "b"}', b"", b""
    assert expected == await intake(**stdin(*lines))


@pytest.mark.parametrize("name", ["m.jsonl", "m.ndjson", "M.JSONL"])
async def test_a_manifest_is_recognised_by_its_suffix(
    name: str, tmp_path: Path, intake: Any
) -> None:
    path = tmp_path / name
    path.write_bytes(b'\xef\xbb\xbf{"text":"a"}')
    assert [ChunkInput("line 1", b'{"text":"a","position":0}')] == await intake(path)


async def test_a_manifest_needs_no_split(intake: Any, manifest_only: Pipeline) -> None:
    assert len(await intake(pipeline=manifest_only, **stdin(b'{"text":"a"}'))) == 1


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b'{"text":"secret","position":"x"}', "position: Input should be a valid"),
        (b'{"position":"secret"}', "text: Field required; position: Input should be"),
        (b"secret", "payload: Invalid JSON"),
        (b'{"text":"secret\xff"}', "payload: Invalid JSON"),
    ],
)
async def test_an_invalid_line_is_reported_with_its_fields_and_not_quoted(
    line: bytes, complaint: str, intake: Any
) -> None:
    refused = await refusal(intake(**stdin(b'{"text":"a"}', b"", line)))
    assert refused.code == "input.rows.invalid_line"
    assert refused.facts["line"] == 3
    assert "Line 3 of standard input" in refused.message
    assert complaint in refused.message
    assert "secret" not in refused.message
    # A logged traceback prints causes, and pydantic's own error quotes its input.
    assert refused.__cause__ is None
    assert refused.__suppress_context__


class Fails(BaseModel):
    text: str

    @field_validator("text")
    @classmethod
    def known(cls, text: str) -> str:
        return {"fine": text}[text]


async def test_a_line_whose_validator_raises_is_reported_and_not_quoted(
    intake: Any, pipeline: Pipeline
) -> None:
    lines = stdin(b'{"text":"fine"}', b'{"text":"secret"}')
    said = "^Line 2 of standard input does not fit Fails: a validator raised KeyError"
    with pytest.raises(UsageError, match=said) as refused:
        await intake(pipeline=replace(pipeline, payload=Fails), **lines)
    assert refused.value.code == "input.rows.invalid_line"
    assert "secret" not in refused.value.message
    assert refused.value.__suppress_context__


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ('{"text":"a"}\n'.encode("utf-16"), "is UTF-16 text"),
        (gzip.compress(b'{"text":"a"}\n'), "is packed by gzip"),
    ],
    ids=["utf-16", "gzip"],
)
async def test_an_unsupported_encoding_is_named_in_the_error(
    data: bytes, said: str, intake: Any
) -> None:
    with pytest.raises(UsageError, match=f"standard input {said}") as refused:
        await intake(**stdin(data))
    assert refused.value.code == "input.file.unreadable"


async def test_a_closed_standard_input_is_an_error(
    intake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert (await refusal(intake("-"))).code == "input.file.unreadable"


@pytest.mark.parametrize("data", [b"", b"\n \n\r\n", b"\xef\xbb\xbf\n"])
async def test_a_manifest_of_blank_lines_has_no_chunks(
    data: bytes, intake: Any
) -> None:
    assert (await refusal(intake(**stdin(data)))).code == "input.rows.empty"


async def test_a_stream_that_fails_is_an_error(intake: Any) -> None:
    class Broken(io.BytesIO):
        def read(self, _: int | None = -1) -> bytes:
            raise OSError(5, "Input/output error")

    assert (await refusal(intake("-", stdin=Broken()))).code == "input.file.unreadable"


async def test_a_file_is_closed_if_the_reader_stops_early(
    tmp_path: Path, pipeline: Pipeline
) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(b'{"text":"a"}\n' * 3)
    chunks = chunk_inputs(str(path), pipeline)
    await anext(chunks)
    await chunks.aclose()  # an open file would be a ResourceWarning, an error here


class GeneratedLines(io.RawIOBase):
    """A stream that generates its lines during reading."""

    def __init__(self, lines: int, width: int) -> None:
        self.left = lines
        self.line = b'{"text":"' + b"x" * width + b'"}\n'

    def read(self, size: int = -1) -> bytes:
        count = min(self.left, max(1, size // len(self.line)))
        self.left -= count
        return self.line * count


async def test_a_manifest_is_never_in_memory_as_a_whole(pipeline: Pipeline) -> None:
    stream = GeneratedLines(lines=1_000, width=8_000)  # 8 MB
    tracemalloc.start()
    count = 0
    async for _ in chunk_inputs("-", pipeline, stdin=stream):  # type: ignore[arg-type]
        count += 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 1_000
    assert peak < 2_000_000


async def test_reading_20_000_lines_keeps_nothing_in_memory(
    pipeline: Pipeline,
) -> None:
    # Count live objects, because tracing allocations takes ten seconds.
    held, count = [], 0
    async for _ in chunk_inputs("-", pipeline, stdin=GeneratedLines(20_000, 40)):  # type: ignore[arg-type]
        count += 1
        if count % 2_000 == 0:
            held.append(sys.getallocatedblocks())
    assert count == 20_000
    assert max(held) - min(held) < 20_000  # a block's lines, not the manifest's


async def test_too_many_chunks_are_refused(intake: Any) -> None:
    lines = [b'{"text":"a"}'] * 3
    assert len(await intake(**stdin(*lines), limits=IntakeLimits(chunks=3))) == 3
    refused = await refusal(intake(**stdin(*lines), limits=IntakeLimits(chunks=2)))
    assert refused.code == "input.chunks.too_many"
