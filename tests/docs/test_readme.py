from __future__ import annotations

import sys
from types import ModuleType

import pytest

from piecework.testing import run_in_memory
from piecework_examples.quickstart import Paragraph, pipeline
from tests.docs.pages import README, ROOT, fenced, prose

HEADS = [
    "See it run",
    "Your own pipeline",
    "What you get",
    "How it works",
    "Beside what you know",
    "When not to use it",
    "From your program",
    "On AWS",
    "When it goes wrong",
    "Status and limits",
]


def test_the_readme_has_at_most_160_lines() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 160


def test_the_readme_has_its_sections_in_their_order() -> None:
    lines = prose(README).splitlines()

    assert HEADS == [li.removeprefix("## ") for li in lines if li.startswith("## ")]


async def test_the_pipeline_of_the_quickstart_does_what_it_says() -> None:
    payloads = [Paragraph(text="one two"), Paragraph(text="three")]

    run = await run_in_memory(pipeline, payloads)

    assert {0: 2, 1: 1} == run.results
    assert 3 == run.join_value
    assert {"total.txt": b"3\n"} == run.artifacts


def test_the_pipeline_and_the_test_in_the_readme_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    declared, tested = fenced(README, "python")
    module = ModuleType("readme")
    monkeypatch.setitem(sys.modules, "readme", module)
    lines = "\n".join(f"    {line}" for line in tested.splitlines())
    program = f"import asyncio\nasync def main():\n{lines}\nasyncio.run(main())\n"

    for source in (declared, program):
        exec(compile(source, "README.md", "exec"), vars(module))  # noqa: S102 -- our own page

    assert "Pipeline(" in declared
    assert "run_in_memory" in tested


def test_the_command_of_the_readme_names_a_pipeline_that_exists() -> None:
    assert "piecework_examples.quickstart:pipeline" in "".join(fenced(README, "sh"))
    assert (ROOT / "examples/piecework_examples/quickstart.py").is_file()


def test_the_last_line_of_the_demo_in_the_readme_has_the_true_form() -> None:
    shown = fenced(README, "")[0].splitlines()[-1]
    source = (ROOT / "orchestrator/piecework_orchestrator/demo").rglob("*.py")
    names = [pair.partition("=")[0] for pair in shown.split()]
    code = "".join(path.read_text("utf-8") for path in source)

    assert ["lost", "duplicate_effects", "calls_paid_twice", "chunks", "redriven"] == (
        names
    )
    assert [] == [name for name in names if f"{name}=" not in code]
