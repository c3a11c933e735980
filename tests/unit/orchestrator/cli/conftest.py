"""The command line, run in this process on a deployment in memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from piecework import runtime
from piecework_orchestrator.cli.app import app
from piecework_orchestrator.dead_letters import closing
from tests.unit.orchestrator.cli.deployment import (
    RUNNER,
    Deployment,
    run_command_line,
)

__all__ = ["RUNNER", "app"]

Run = Callable[..., Any]
TOY = """
from pydantic import BaseModel
from piecework import Context, Document, Pipeline, Stage

class Line(BaseModel):
    text: str

def lines(document):
    return [Line(text=line) for line in document.text.splitlines()]

async def shout(ctx: Context[Line]) -> str:
    return ctx.payload.text.upper()

def pipeline(name, calls):
    return Pipeline(name=name, payload=Line, split=lines, stages=[Stage(shout)],
                    label=lambda line: line.text, calls_per_chunk=calls)

toy, other = pipeline("toy", 3), pipeline("other", None)
print("a module that prints")
"""


@pytest.fixture(autouse=True)
def no_width_of_the_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """Return a deployment that commands connect to; it records what they close."""
    made = Deployment()
    monkeypatch.setattr(runtime, "connect", made.connect)
    monkeypatch.setattr(closing, "redrive", made.redrive)
    monkeypatch.setattr(closing, "discard", made.discard)
    return made


@pytest.fixture
def run() -> Run:
    """Run a command line that needs no deployment."""
    return run_command_line


@pytest.fixture
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the name of a user's own module, which holds two pipelines."""
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "toy_of_a_test.py").write_text(TOY)
    sys.path.insert(0, str(folder))
    yield "toy_of_a_test"
    sys.path.remove(str(folder))
    sys.modules.pop("toy_of_a_test", None)
