from __future__ import annotations

import re

from examples.quickstart import Paragraph, pipeline
from piecework.testing import run_in_memory
from tests.docs.pages import README, ROOT, fenced, prose


def test_behind_every_promise_stands_its_test() -> None:
    row = re.compile(
        r"^\| .+ \| `(tests/scenarios/\w+\.py)`: `(test_\w+)` \|$", re.MULTILINE
    )
    promises = row.findall(prose(README))
    missing = [f"{file}: {name}" for file, name in promises if not has_test(file, name)]

    assert len(promises) >= 10
    assert [] == missing


def has_test(file: str, name: str) -> bool:
    path = ROOT / file
    return path.is_file() and f"def {name}(" in path.read_text("utf-8")


def test_the_pipeline_of_the_readme_is_the_one_that_runs() -> None:
    source = (ROOT / "examples/quickstart.py").read_text("utf-8")

    assert source in fenced(README, "python")


async def test_the_pipeline_of_the_readme_does_what_it_says() -> None:
    payloads = [Paragraph(text="one two"), Paragraph(text="three")]

    run = await run_in_memory(pipeline, payloads)

    assert {0: 2, 1: 1} == run.results
    assert 3 == run.join_value
    assert {"total.txt": b"3\n"} == run.artifacts


def test_the_test_in_the_readme_runs() -> None:
    body = next(b for b in fenced(README, "python") if "run_in_memory" in b)
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    program = f"import asyncio\nasync def main():\n{lines}\nasyncio.run(main())\n"

    exec(compile(program, "README.md", "exec"), {})  # noqa: S102 -- our own page


def test_what_the_readme_says_is_not_there_is_not_there() -> None:
    says_so = "no service template" in prose(README)

    assert says_so is not (ROOT / "infra" / "service.yaml").exists()
