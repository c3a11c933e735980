from __future__ import annotations

import sys
from functools import partial
from types import ModuleType

import pytest

from piecework.client import Client
from piecework.settings import Settings
from piecework.testing import run_in_memory
from piecework_examples.quickstart import Paragraph, word_count
from piecework_simulation.in_process import InProcessAws, worker_beside
from tests.docs.pages import README, ROOT, fenced, prose

HEADS = [
    "See it run",
    "Your own pipeline",
    "What you get",
    "How it works",
    "Compared with what you know",
    "When not to use it",
    "From your program",
    "On AWS",
    "When it goes wrong",
    "Status and limits",
]


def test_the_readme_has_its_sections_in_their_order() -> None:
    lines = prose(README).splitlines()

    assert HEADS == [li.removeprefix("## ") for li in lines if li.startswith("## ")]


async def test_the_pipeline_of_the_quickstart_does_what_it_says() -> None:
    payloads = [Paragraph(text="one two"), Paragraph(text="three")]

    run = await run_in_memory(word_count, payloads)

    assert {0: 2, 1: 1} == run.results
    assert 3 == run.join_value
    assert {"total.txt": b"3\n"} == run.artifacts


async def test_the_pipeline_and_the_program_in_the_readme_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = ModuleType("readme")
    monkeypatch.setitem(sys.modules, "readme", module)
    for source in fenced(README, "python"):
        exec(compile(source, "README.md", "exec"), vars(module))  # noqa: S102 -- our own page
    aws = InProcessAws(Settings(receive_wait_s=1))
    client = partial(Client, runtime=aws.runtime())
    monkeypatch.setattr(module, "Client", client, raising=True)
    pipelines = {"word_count": module.word_count.declared}

    async with worker_beside(aws, pipelines, ["readme"]):
        counts = await module.batch([module.Text(text="one two"), module.Text(text="")])

    assert sorted(counts) == [0, 2]


def test_the_command_of_the_readme_names_a_pipeline_that_exists() -> None:
    named = "`piecework run piecework_examples.quickstart:word_count README.md`"
    assert named in README.read_text("utf-8")
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
