"""Promise: one command runs a pipeline over rows, prints results, leaves nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PIPELINE = """
from pydantic import BaseModel
from piecework import Context, JoinContext, PermanentError, Pipeline, Stage


class Text(BaseModel):
    text: str


def count(ctx: Context[Text]) -> int:
    print("a stage may print")
    if not ctx.payload.text:
        raise PermanentError("there is no text")
    return len(ctx.payload.text.split())


async def total(ctx: JoinContext) -> int:
    words = sum([result.value async for result in ctx.results()])
    await ctx.write("total.txt", str(words))
    return words


words = Pipeline("words", payload=Text, stages=[Stage(count)], join=total)
"""


def run_here(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder that holds the pipeline."""
    (folder / "app.py").write_text(PIPELINE, encoding="utf-8")
    command = [sys.executable, "-m", "piecework_orchestrator.cli", "run", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=90, check=False
    )


def test_results_go_to_stdout_and_causes_to_stderr(tmp_path: Path) -> None:
    rows = [{"text": "one"}, {"text": ""}, {"text": "two words"}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "rows.jsonl").write_text(lines, encoding="utf-8")

    done = run_here(tmp_path, "app:words", "rows.jsonl", "--save", "out")

    results = [json.loads(line) for line in done.stdout.splitlines()]
    values = {each["chunk"]: each.get("value") for each in results}
    assert values == {0: 1, 1: None, 2: 2}
    assert done.returncode == 5  # dead letters are left
    assert "dead runtime.stage.permanent in count: there is no text" in done.stderr
    assert (tmp_path / "out" / "total.txt").read_text("utf-8") == "3"
    left = {path.name for path in tmp_path.iterdir()} - {"__pycache__"}
    assert left == {"app.py", "rows.jsonl", "out"}


def test_a_wrong_line_is_named_and_nothing_runs(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(
        '{"text": "a"}\n{"txt": 1}\n', encoding="utf-8"
    )

    done = run_here(tmp_path, "app:words", "rows.jsonl")

    assert (done.returncode, done.stdout) == (2, "")
    assert "input.manifest.invalid_line: Line 2 of rows.jsonl" in done.stderr
