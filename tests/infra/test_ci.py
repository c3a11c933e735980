"""The workflow of CI: its jobs run what the Makefile has, with pinned actions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOW: dict[Any, Any] = yaml.safe_load(
    (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
)
PINNED = re.compile(r"actions/[a-z-]+@[0-9a-f]{40}")


@pytest.mark.parametrize(
    ("job", "command"),
    [("all", ".ci/run"), ("beside", "make beside"), ("lowest", "make lowest")],
)
def test_a_job_runs_its_target_with_the_rights_to_read(job: str, command: str) -> None:
    found = WORKFLOW["jobs"][job]
    steps = found["steps"]
    assert [command] == [step["run"] for step in steps if "run" in step]
    assert all(PINNED.fullmatch(step["uses"]) for step in steps if "uses" in step)
    assert found["timeout-minutes"] < 120
    assert "permissions" not in found
    assert WORKFLOW["permissions"] == {"contents": "read"}
    target = command.removeprefix("make ")
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert f"\n{target}: setup ## " in makefile or (ROOT / target).is_file()


def test_the_workflow_runs_on_each_change_and_each_week() -> None:
    events = WORKFLOW[True]  # YAML reads the key `on` as true
    assert {"push", "pull_request", "schedule"} <= events.keys()
    script = (ROOT / "requirements" / "apart.sh").read_text("utf-8")
    for package in ("instructor", "langchain", "fastapi", "openai"):
        assert f" {package}" in script.partition("\nbeside() {")[2]
