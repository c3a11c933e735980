"""Guarantee: `piecework init` writes a project that works as it is, or nothing.

`tests/infra/test_wheel.py` runs the tests and the pipeline of each project.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.orchestrator.cli.conftest import RUNNER, app

BIN = Path(sys.executable).parent
STARTERS = {"plain": [], "llm": ["--llm"], "saga": ["--saga"]}
FILES = {
    *(".gitignore", "Dockerfile", "Makefile", "README.md", "app.py"),
    *("pyproject.toml", "rows.jsonl", "test_app.py"),
}


def test_new_projects_pass_the_linters(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "my-plain").mkdir()  # an empty folder is filled
    for name, options in STARTERS.items():
        done = RUNNER.invoke(app, ["init", f"my-{name}", *options])
        written = set((project / f"my-{name}").iterdir())
        assert (0, FILES) == (done.exit_code, {file.name for file in written})
        assert 3 == done.stderr.count("next: ")
        assert not [file for file in written if "{{name" in file.read_text("utf-8")]
    for words in (
        (BIN / "ruff", "format", "--check", "."),
        (BIN / "ruff", "check", "."),
        (BIN / "hadolint", *project.glob("*/Dockerfile")),
    ):
        checked = subprocess.run(words, capture_output=True, text=True, check=False)
        assert 0 == checked.returncode, checked.stdout + checked.stderr
    monkeypatch.syspath_prepend(project / "my-llm")
    assert importlib.import_module("app").mini.dependency.limits.have_rate


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
    project: Path, words: list[str], code: str, step: str
) -> None:
    (project / "taken").mkdir()
    (project / "taken" / "notes.txt").write_text("mine")
    (project / "file").write_text("mine")
    before = sorted(project.rglob("*"))
    done = RUNNER.invoke(app, ["init", *words])
    assert 2 == done.exit_code
    assert f"error {code}: " in done.stderr
    assert step in done.stderr
    assert before == sorted(project.rglob("*"))
