"""Guarantee: `piecework init` writes a project that works as it is, or nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
STARTERS = {"plain": [], "llm": ["--llm"], "saga": ["--saga"]}
FILES = {
    ".gitignore",
    "Dockerfile",
    "Makefile",
    "README.md",
    "app.py",
    "pyproject.toml",
    "rows.jsonl",
    "test_app.py",
}


def run(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def init(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(folder, sys.executable, "-m", "piecework_orchestrator", "init", *words)


@pytest.mark.parametrize("starter", STARTERS)
def test_a_new_project_passes_its_own_checks(tmp_path: Path, starter: str) -> None:
    done = init(tmp_path, "my-batch", *STARTERS[starter])

    project = tmp_path / "my-batch"
    assert (0, FILES) == (done.returncode, {file.name for file in project.iterdir()})
    assert 3 == done.stderr.count("next: ")
    assert not [f for f in project.iterdir() if "{{name" in f.read_text("utf-8")]
    for words in (
        (BIN / "ruff", "format", "--check", "."),
        (BIN / "ruff", "check", "."),
        (BIN / "hadolint", "Dockerfile"),
        (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
    ):
        checked = run(project, *words)
        assert 0 == checked.returncode, checked.stdout + checked.stderr


def test_the_model_of_a_new_project_has_a_limit(tmp_path: Path) -> None:
    init(tmp_path, "my-batch", "--llm")

    rate = "import app; print(app.mini.dependency.limits.have_rate)"
    asked = run(tmp_path / "my-batch", sys.executable, "-c", rate)
    assert "True\n" == asked.stdout, asked.stderr


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()

    assert 0 == init(tmp_path, "shop").returncode
    assert FILES == {file.name for file in (tmp_path / "shop").iterdir()}


@pytest.mark.parametrize(
    ("words", "code", "step"),
    [
        (["taken"], "cli.project.folder_taken", "another name"),
        (["file"], "cli.project.folder_taken", "another name"),
        (["My Batch"], "cli.project.bad_name", "`piecework init my-batch`"),
        (["../up"], "cli.project.bad_name", "`piecework init up`"),
        (["piecework"], "cli.project.bad_name", "`piecework init piecework-batch`"),
        (["json"], "cli.project.bad_name", "`piecework init json-batch`"),
        (["pydantic-core"], "cli.project.bad_name", "installed module"),
        (["x" * 65], "cli.project.bad_name", "`piecework init my-batch`"),
        (["shop", "--llm", "--saga"], "cli.usage.invalid", "one of the two"),
    ],
)
def test_a_refusal_writes_nothing(
    tmp_path: Path, words: list[str], code: str, step: str
) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    before = sorted(tmp_path.rglob("*"))

    done = init(tmp_path, *words)

    assert 2 == done.returncode
    assert f"error {code}: " in done.stderr
    assert step in done.stderr
    assert before == sorted(tmp_path.rglob("*"))


def test_the_input_of_each_starter_is_lines_of_json(tmp_path: Path) -> None:
    for starter, options in STARTERS.items():
        init(tmp_path, starter, *options)
        rows = (tmp_path / starter / "rows.jsonl").read_text("utf-8").splitlines()
        assert len(rows) >= 2
        assert all(isinstance(json.loads(row), dict) for row in rows)
