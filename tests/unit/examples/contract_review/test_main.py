"""Reviews right here, without a worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.contract_review.__main__ import asked_for, main

MSA = "examples/contract_review/contracts/msa-northwind.md"


def test_a_contract_is_reviewed_and_its_reports_are_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REVIEW_ADDIN_URL", "")
    assert main([MSA, "--out", str(tmp_path)]) == 0
    saved = {path.name for path in (tmp_path / "msa-northwind").iterdir()}
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("msa-northwind.md: 22 clauses; 1 critical")
    assert last == f"reports in {tmp_path}"
    assert saved == {"report.md", "report.html"}


def test_the_corpus_of_contracts_stops_at_the_limit() -> None:
    names = [document.name for document in asked_for([], "contracts", 2)]
    assert names == ["dpa-quillmark.md", "msa-northwind.md"]


def test_a_missing_file_is_an_error_with_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "none.md")]) == 2
    assert "none.md" in capsys.readouterr().err


def test_nothing_to_review_is_a_question_of_usage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as usage:
        main([])
    assert usage.value.code == 2
    assert "--corpus" in capsys.readouterr().err
