from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import Document, PermanentError, Pipeline
from piecework.domain.chunk_input import ChunkInput
from piecework_orchestrator.submit.intake.limits import IntakeLimits
from tests.unit.orchestrator.submit.intake.conftest import refusal


@pytest.fixture
def split_with(
    pipeline: Pipeline, clause: type[BaseModel]
) -> Callable[[Callable[[Document], Iterable[Any]]], Pipeline]:
    return lambda split: replace(pipeline, split=split)


async def test_a_document_is_split_into_chunks_named_after_it(
    tmp_path: Path, intake: Any
) -> None:
    (tmp_path / "a.md").write_text("# Term\n\nNotice")
    expected = [
        ChunkInput("a.md #1", b'{"text":"# Term","position":0}'),
        ChunkInput("a.md #2", b'{"text":"Notice","position":1}'),
    ]
    assert expected == await intake(tmp_path / "a.md")


@pytest.mark.parametrize("suffix", [".txt", ".TXT", ".docx", ".pdf"])
async def test_every_document_type_is_split_as_text(
    suffix: str, tmp_path: Path, intake: Any, make_word: Any, make_pdf: Any
) -> None:
    made = {
        ".docx": lambda: make_word(lambda d: d.add_paragraph("Term")),
        ".pdf": lambda: make_pdf("Term"),
    }
    path = tmp_path / f"a{suffix}"
    path.write_bytes(made.get(suffix, lambda: b"Term")())
    assert [b'{"text":"Term","position":0}'] == [c.payload for c in await intake(path)]


async def test_a_name_with_invalid_bytes_becomes_text(
    tmp_path: Path, intake: Any, pipeline: Pipeline, clause: type[BaseModel]
) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.md")
    path.write_text("a")
    named = replace(pipeline, split=lambda document: [clause(text=document.name)])
    (chunk,) = await intake(path, named)
    assert '{"text":"caf\ufffd.md","position":0}' == chunk.payload.decode()


async def test_a_long_name_is_cut_before_the_number(
    tmp_path: Path, intake: Any
) -> None:
    path = tmp_path / ("n" * 100 + ".md")
    path.write_text("a")
    assert ["n" * 61 + " #1"] == [c.label for c in await intake(path)]


async def test_a_file_may_be_as_large_as_the_limit_and_no_larger(
    tmp_path: Path, intake: Any
) -> None:
    (tmp_path / "a.md").write_text("abc")
    most, less = (IntakeLimits(document_bytes=size) for size in (3, 2))
    assert len(await intake(tmp_path / "a.md", limits=most)) == 1
    refused = await refusal(intake(tmp_path / "a.md", limits=less))
    assert refused.code == "input.file.too_large"


@pytest.mark.parametrize(
    ("name", "content", "code", "said"),
    [
        *(
            ("a.md", content, "input.file.empty", "a.md contains no text.")
            for content in (b"", b" \n\t\n", b"\xef\xbb\xbf")
        ),
        ("a.doc", b"abc", "input.file.unsupported", "Save it as .docx."),
        ("a.xlsx", b"abc", "input.file.unsupported", "Save it as .csv."),
        ("a", b"abc", "input.file.unsupported", "Convert"),
        ("none.md", None, "input.source.not_found", ""),
        ("none", None, "input.source.not_found", ""),
        ("none.jsonl", None, "input.source.not_found", ""),
        ("b.md/below.md", None, "input.source.not_found", ""),
        ("a.md", "a pipe", "input.file.unreadable", ""),  # it waits for no writer
        ("a.md", "a link to itself", "input.file.unreadable", ""),
    ],
)
async def test_what_cannot_be_read_is_refused_with_its_name_or_a_next_step(
    name: str, content: object, code: str, said: str, tmp_path: Path, intake: Any
) -> None:
    path = tmp_path / name
    (tmp_path / "b.md").write_text("b")
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content == "a pipe":
        os.mkfifo(path)
    elif content:
        path.symlink_to(path)
    refused = await refusal(intake(path))
    assert refused.code == code
    assert said in f"{refused.message} {refused.next_step}"


async def test_a_document_without_chunks_or_a_split_is_refused_with_its_name(
    tmp_path: Path, intake: Any, split_with: Any, manifest_only: Pipeline
) -> None:
    (tmp_path / "a.md").write_text("a")
    refused = await refusal(intake(tmp_path / "a.md", split_with(lambda _: [])))
    assert (refused.code, "a.md" in refused.message) == ("input.split.none", True)
    refused = await refusal(intake(tmp_path / "a.md", manifest_only))
    assert refused.code == "input.split.missing"


async def test_a_failing_split_is_reported_with_its_line_but_not_quoted(
    tmp_path: Path, intake: Any, split_with: Any, clause: Any
) -> None:
    def split(document: Document) -> Iterable[Any]:
        yield clause(text="a")
        raise KeyError(document.text)

    (tmp_path / "a.md").write_text("secret")
    refused = await refusal(intake(tmp_path / "a.md", split_with(split)))
    assert refused.code == "input.split.failed"
    assert "in split on a.md." in refused.message
    assert "secret" not in refused.message


@pytest.mark.parametrize("split", [lambda _: None, lambda _: next(iter(()))])
async def test_a_split_that_returns_no_iterable_is_reported(
    split: Any, tmp_path: Path, intake: Any, split_with: Any
) -> None:
    (tmp_path / "a.md").write_text("a")
    assert (
        await refusal(intake(tmp_path / "a.md", split_with(split)))
    ).code == "input.split.failed"


async def test_an_error_raised_by_the_split_is_passed_on(
    tmp_path: Path, intake: Any, split_with: Any
) -> None:
    def split(_: Document) -> Iterable[Any]:
        raise PermanentError("No clauses.", code="review.contract.not_one")

    (tmp_path / "a.md").write_text("a")
    with pytest.raises(PermanentError) as refused:
        await intake(tmp_path / "a.md", split_with(split))
    assert refused.value.code == "review.contract.not_one"


async def test_an_invalid_payload_is_reported_by_its_number(
    tmp_path: Path, intake: Any, split_with: Any, clause: Any
) -> None:
    (tmp_path / "a.md").write_text("a")
    split = split_with(lambda _: [clause(text="a"), {"text": "b"}])
    refused = await refusal(intake(tmp_path / "a.md", split))
    assert refused.code == "input.payload.invalid"
    assert "chunk 2 of a.md" in refused.message


async def test_reading_and_splitting_do_not_block_the_event_loop(
    tmp_path: Path, intake: Any, split_with: Any, clause: Any
) -> None:
    loop, loop_ran = asyncio.get_running_loop(), threading.Event()

    def split(_: Document) -> Iterable[Any]:
        # Set by the event loop, which it can only be while it is not in here.
        loop.call_soon_threadsafe(loop_ran.set)
        assert loop_ran.wait(5)
        yield clause(text="a")

    (tmp_path / "a.md").write_text("a")
    assert len(await intake(tmp_path / "a.md", split_with(split))) == 1
