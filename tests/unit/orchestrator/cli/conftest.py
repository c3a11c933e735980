"""The command line, run in this process on a deployment in memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from inspect import signature
from typing import Any

import pytest
from typer.testing import CliRunner

from piecework import runtime
from piecework_orchestrator.cli.app import app
from piecework_orchestrator.dead_letters import closing
from piecework_orchestrator.dead_letters.redrive import RedriveRequest
from tests.unit.orchestrator.cli.deployment import Deployment

Run = Callable[..., Any]
#: click before 8.2 joins both streams unless it is told otherwise.
JOINS = "mix_stderr" in signature(CliRunner).parameters
OPTIONS: dict[str, Any] = {"mix_stderr": False} if JOINS else {}
RUNNER = CliRunner(**OPTIONS)

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
def deployment(monkeypatch: pytest.MonkeyPatch) -> Deployment:
    made = Deployment()
    monkeypatch.setattr(runtime, "connect", made.connect)
    return made


@pytest.fixture
def redriven(monkeypatch: pytest.MonkeyPatch) -> list[RedriveRequest]:
    """Return the requested redrives; the fake executes nothing."""
    requests: list[RedriveRequest] = []

    async def redrive(_: object, one: RedriveRequest) -> tuple[int, int]:
        requests.append(one)
        return len(one.letters), 2

    monkeypatch.setattr(closing, "redrive", redrive)
    return requests


@pytest.fixture
def run() -> Run:
    """Run a command line; the answer has `exit_code`, `stdout` and `stderr`."""

    def invoke(*words: str, stdin: str = "") -> Any:
        return RUNNER.invoke(app, list(words), input=stdin)

    return invoke


@pytest.fixture
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the name of a user's own module, which holds two pipelines."""
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "toy_of_a_test.py").write_text(TOY)
    sys.path.insert(0, str(folder))
    yield "toy_of_a_test"
    sys.path.remove(str(folder))
    sys.modules.pop("toy_of_a_test", None)
