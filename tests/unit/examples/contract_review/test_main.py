"""Reviews right here, without a worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from piecework_examples.contract_review.__main__ import asked_for, main

MSA = "examples/piecework_examples/contract_review/contracts/msa-northwind.md"


def test_a_contract_is_reviewed_and_its_reports_are_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REVIEW_ADDIN_URL", "")
    monkeypatch.setenv("REVIEW_CALLS", "")
    assert main([MSA, "--out", str(tmp_path), "--calls", "24"]) == 0
    saved = {path.name for path in (tmp_path / "msa-northwind").iterdir()}
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("msa-northwind.md: 22 clauses; 1 critical")
    assert last == f"reports in {tmp_path}"
    assert saved == {"report.md", "report.html"}


def test_the_corpus_of_contracts_stops_at_the_limit() -> None:
    names = [document.name for document in asked_for([], "contracts", 2)]
    assert names == ["dpa-quillmark.md", "msa-northwind.md"]


def test_documents_of_one_name_have_a_report_each(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a/x.md", "b/x.md", "x.txt", "x-2.md")]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text("## 1. Term\n\nThe term is one year.\n")
    out = tmp_path / "out"
    assert main([*map(str, files), "--out", str(out)]) == 0
    assert {"x", "x-2", "x-3", "x-2-2"} == {path.name for path in out.iterdir()}


def test_the_mark_at_the_beginning_of_a_file_hides_no_clause(tmp_path: Path) -> None:
    file = tmp_path / "x.md"
    text = "1. Term\n\nThe term.\n\n2. Notice\n\nA notice.\n"
    file.write_text(text, "utf-8-sig")
    (document,) = asked_for([file], None, 0)
    assert text == document.text


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
