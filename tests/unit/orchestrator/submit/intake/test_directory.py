from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from piecework import Pipeline
from piecework.errors import UsageError
from tests.unit.orchestrator.submit.intake.conftest import refusal


def fill(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


async def test_documents_are_read_in_the_order_of_their_paths(
    tmp_path: Path, intake: Any
) -> None:
    fill(tmp_path, "b.md", "a/z.txt", "a/b/c.md", "c/a.md", "A.md")
    expected = ["A.md #1", "a/b/c.md #1", "a/z.txt #1", "b.md #1", "c/a.md #1"]
    assert expected == [chunk.label for chunk in await intake(tmp_path)]


async def test_hidden_files_are_skipped_and_other_files_are_named_in_a_warning(
    tmp_path: Path, intake: Any
) -> None:
    fill(tmp_path, "a.md", ".git/b.md", ".c.md", "~$a.docx", "d.png", "e/f.jsonl")
    with capture_logs() as logs:
        assert ["a.md #1"] == [chunk.label for chunk in await intake(tmp_path)]
    expected = ("input.directory.skipped", 2, ["d.png", "e/f.jsonl"])
    assert [expected] == [(e["event"], e["count"], e["files"]) for e in logs]


async def test_skipped_files_are_counted_and_the_first_ones_named(
    tmp_path: Path, intake: Any
) -> None:
    fill(tmp_path, "a.md", *(f"{n}.png" for n in range(30)))
    with capture_logs() as logs:
        await intake(tmp_path)
    assert [(30, 10)] == [(entry["count"], len(entry["files"])) for entry in logs]


@pytest.mark.attack("links")
async def test_a_link_in_a_loop_is_not_followed(tmp_path: Path, intake: Any) -> None:
    fill(tmp_path, "a/b.md")
    (tmp_path / "a" / "again").symlink_to(tmp_path, target_is_directory=True)
    with capture_logs() as logs:
        assert ["a/b.md #1"] == [chunk.label for chunk in await intake(tmp_path)]
    assert [["a/again"]] == [entry["files"] for entry in logs]


@pytest.mark.attack("links")
async def test_a_link_that_leads_out_of_the_directory_is_skipped_and_named(
    tmp_path: Path, intake: Any
) -> None:
    fill(tmp_path, "docs/a.md", "private.md")
    (tmp_path / "docs" / "b.md").symlink_to("../private.md")
    (tmp_path / "docs" / "c.md").symlink_to("a.md")
    (tmp_path / "linked").symlink_to("docs", target_is_directory=True)
    for root in (tmp_path / "docs", tmp_path / "linked"):
        with capture_logs() as logs:
            assert ["a.md #1", "c.md #1"] == [c.label for c in await intake(root)]
        assert [["b.md"]] == [entry["files"] for entry in logs]


@pytest.mark.parametrize(("name", "read"), [("b", True), ("b.md", False)])
async def test_a_link_to_itself_is_not_a_document(
    tmp_path: Path, intake: Any, name: str, *, read: bool
) -> None:
    fill(tmp_path, "a.md")
    (tmp_path / name).symlink_to(name)
    if read:
        with capture_logs() as logs:
            assert ["a.md #1"] == [chunk.label for chunk in await intake(tmp_path)]
        assert [[name]] == [entry["files"] for entry in logs]
        return
    with pytest.raises(UsageError, match=r"b\.md cannot be read: Too many") as refused:
        await intake(tmp_path)
    assert refused.value.code == "input.file.unreadable"


async def test_an_invalid_document_refuses_the_directory(
    tmp_path: Path, intake: Any
) -> None:
    fill(tmp_path, "a.md")
    (tmp_path / "b.md").write_text("")
    refused = await refusal(intake(tmp_path))
    assert refused.code == "input.file.empty"
    assert "b.md" in refused.message


async def test_a_directory_without_documents_is_refused(
    tmp_path: Path, intake: Any
) -> None:
    fill(tmp_path, "a.png", ".b.md")
    with pytest.raises(UsageError) as refused, capture_logs():
        await intake(tmp_path)
    assert refused.value.code == "input.directory.empty"
    assert "1 files skipped" in refused.value.message


async def test_a_directory_needs_a_pipeline_with_a_split(
    tmp_path: Path, intake: Any, manifest_only: Pipeline
) -> None:
    assert (
        await refusal(intake(tmp_path, manifest_only))
    ).code == "input.split.missing"


async def test_a_directory_with_a_manifest_suffix_is_a_directory(
    tmp_path: Path, intake: Any
) -> None:
    fill(tmp_path, "d.jsonl/a.md")
    assert len(await intake(tmp_path / "d.jsonl")) == 1
