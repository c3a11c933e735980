"""Each pipeline that a page or a starter shows can be simulated."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from piecework_orchestrator.cli.init import write_project
from piecework_simulation.driver.inputs import Inputs, load_workloads
from piecework_simulation.driver.schedule import run_schedule

ROOT = Path(__file__).parents[2]
#: Among these schedules is a job without a cancel, whose inputs have no fault.
SEEDS = range(1, 5)
QUICKSTART = Inputs("piecework_examples.quickstart:word_count", str(ROOT / "README.md"))


def from_readme(folder: Path) -> Inputs:
    """Write the pipeline of the README and its rows."""
    page = (ROOT / "README.md").read_text("utf-8")
    code = page.partition("```python\n")[2].partition("```")[0]
    (folder / "app.py").write_text(code, encoding="utf-8")
    rows = '{"text": "one two"}\n{"text": "three"}\n'
    (folder / "rows.jsonl").write_text(rows, encoding="utf-8")
    return Inputs("app", str(folder / "rows.jsonl"))


def from_tutorial(folder: Path) -> Inputs:
    """Write the files of the tutorial."""
    page = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
    found = re.findall(
        r"Save this as `([\w.]+)`.*?```\w+\n(.*?)^```$", page, re.MULTILINE | re.DOTALL
    )
    for name, body in found:
        (folder / name).write_text(body, encoding="utf-8")
    return Inputs("reviews", str(folder / "reviews.jsonl"))


def from_starter(folder: Path, starter: str) -> Inputs:
    """Write a project of `piecework init`."""
    write_project(folder, "my-batch", starter)
    return Inputs("app", str(folder / "my-batch" / "rows.jsonl"))


@pytest.mark.parametrize(
    "example", ["readme", "quickstart", "tutorial", "plain", "llm", "saga"]
)
def test_a_documented_pipeline_succeeds_under_faults(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    match example:
        case "readme":
            inputs = from_readme(tmp_path)
        case "quickstart":
            inputs = QUICKSTART
        case "tutorial":
            inputs = from_tutorial(tmp_path)
        case starter:
            inputs = from_starter(tmp_path, starter)
            monkeypatch.syspath_prepend(str(tmp_path / "my-batch"))
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    try:
        workloads = load_workloads(inputs)
        verdicts = [run_schedule(seed, workloads) for seed in SEEDS]
    finally:
        for name in {"app", "reviews"} - before:
            sys.modules.pop(name, None)

    codes = sum((Counter(verdict.codes) for verdict in verdicts), Counter())
    assert [] == [v.violations for v in verdicts if v.violations]
    assert sum(verdict.succeeded for verdict in verdicts) > 0
    assert codes["runtime.stage.unhandled"] == 0
