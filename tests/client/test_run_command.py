"""Guarantee: one command runs a pipeline over rows, prints results, leaves nothing."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import AsyncMock, Mock

import pytest

from piecework.aws.endpoint import ENDPOINT_VARIABLES
from piecework.domain.pause import Pause
from piecework.errors import UsageError
from piecework.settings import Settings
from piecework_orchestrator.embedded.server import find
from piecework_simulation import run_command
from piecework_simulation.in_process import InProcessAws, worker_beside
from piecework_simulation.run_end import end_at_budget
from piecework_worker.worker import SHUTDOWN_MARGIN_S
from tests.client.conftest import Run

PIPELINE = """
from pydantic import BaseModel
from piecework import Context, Results, PermanentError, Pipeline, Stage


class Text(BaseModel):
    text: str


def count(ctx: Context[Text]) -> int:
    print("a stage may print")
    if not ctx.payload.text:
        raise PermanentError("there is no text")
    return len(ctx.payload.text.split())


async def total(ctx: Results) -> int:
    words = sum([result.value async for result in ctx])
    if words > 100:
        raise PermanentError("this is a book")
    await ctx.write("total.txt", str(words))
    return words


words = Pipeline("words", payload=Text, stages=[Stage(count)], join=total)
"""

#: The target of the project: rows to results in that many lines.
MAX_LINES_OF_OWN_PIPELINE = 15
ROOT = Path(__file__).parents[2]


def write(folder: Path, code: str, *rows: object) -> None:
    """Write a module and its rows; a text is written as it is."""
    (folder / "app.py").write_text(code, encoding="utf-8")
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")


def results(stdout: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in stdout.splitlines()]


def test_results_go_to_stdout_and_causes_to_stderr(project: Path, run: Run) -> None:
    write(project, PIPELINE, {"text": "one"}, {"text": ""}, {"text": "two words"})
    done = run("app:words", "rows.jsonl", "--save", "out")
    values = {each["chunk"]: each.get("value") for each in results(done.stdout)}
    assert values == {0: 1, 1: None, 2: 2}
    assert done.exit_code == 5  # dead letters are left
    cause = "dead chunk 1: runtime.stage.permanent in count: there is no text"
    assert cause in done.stderr
    assert (project / "out" / "total.txt").read_text("utf-8") == "3"
    left = {path.name for path in project.iterdir()} - {"__pycache__"}
    assert left == {"app.py", "rows.jsonl", "out"}


REFUSED = """
from itertools import count
from pydantic import BaseModel
from piecework import Dependency, TransientError, pipeline

made = count()
gpt = Dependency("gpt")


class Row(BaseModel):
    n: int


@gpt.call
async def ask(n: int) -> int:
    if next(made) < 3:
        raise TransientError("slow", code="llm.http.429_rate_limited", retry_after=0.1)
    return n


@pipeline
async def numbers(row: Row) -> int:
    return await ask(row.n)
"""


def test_a_dependency_without_a_limit_is_named_once_at_its_first_429(
    project: Path, run: Run
) -> None:
    write(project, REFUSED, {"n": 1}, {"n": 2})
    done = run("app:numbers", "rows.jsonl")
    assert (done.exit_code, done.stdout.count("SUCCEEDED")) == (0, 2)
    said = "gpt refuses calls (429) and has no limit; next: declare limits=Limits("
    assert done.stderr.count(said) == 1


def test_a_join_that_failed_is_named(project: Path, run: Run) -> None:
    write(project, PIPELINE, {"text": "a " * 101})
    done = run("app:words", "rows.jsonl")
    assert "dead join: runtime.stage.permanent" in done.stderr


def test_an_embedded_aws_of_its_own_is_used_and_ended(
    project: Path, run: Run, emulator_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*ENDPOINT_VARIABLES, "PIECEWORK_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)
    own = 'assert not __import__("pathlib").Path(".piecework").exists()'
    write(project, PIPELINE.replace('print("a stage may print")', own), {"text": "one"})
    done = run("app:words", "rows.jsonl", "--aws", "embedded")
    assert done.exit_code == 0, done.stderr
    assert [1] == [each["value"] for each in results(done.stdout)]
    assert ((project / ".piecework").exists(), find(project)) == (False, None)


def test_the_pipeline_of_the_readme_runs(project: Path, run: Run) -> None:
    code, again = map(first_code, (ROOT / "README.md", ROOT / "docs" / "programs.md"))
    assert code.split() == again.split()
    write(project, code, {"text": "one two"}, {"text": "three"})
    done = run("app:word_count", "rows.jsonl")
    values = {each["value"] for each in results(done.stdout)}
    assert (done.exit_code, values) == (0, {1, 2})
    written = [line for line in code.splitlines() if line.strip()]
    assert len(written) <= MAX_LINES_OF_OWN_PIPELINE


def first_code(page: Path) -> str:
    """Return the first block of Python of a page, without its comments."""
    block = page.read_text("utf-8").partition("```python\n")[2].partition("```")[0]
    return re.sub(r" +#.*", "", block)


@pytest.mark.parametrize(
    ("action", "counted", "code"),
    [
        ("refuse", "2 rows of rows.jsonl are refused", 2),
        ("skip", "warning: rows were left out:", 0),
        ("dead", "warning: rows were made dead letters:", 5),
    ],
)
def test_rows_that_do_not_fit_are_left_out_or_dead_as_the_command_says(
    project: Path, run: Run, action: str, counted: str, code: int
) -> None:
    write(project, PIPELINE, {"text": "a b"}, {"txt": "c"}, "no json")
    done = run("app:words", "rows.jsonl", "--invalid", action)
    assert counted in done.stderr
    assert "'txt' (did you mean 'text'?)" in done.stderr
    assert "Line 3 of rows.jsonl does not fit Text" in done.stderr
    values = [each.get("value") for each in results(done.stdout)]
    assert [v for v in values if v is not None] == [2] * (action != "refuse")
    assert done.exit_code == code


LATE = """
from pydantic import BaseModel

from piecework import Context, PermanentError, Pipeline, Stage, WaitTimeoutError


class Refund(BaseModel):
    euros: int


async def ask(ctx: Context[Refund]) -> str:
    try:
        await ctx.wait_for("approval", ask="?", timeout=1)
    except WaitTimeoutError as late:
        return f"{isinstance(late, PermanentError)} {late.code}"
    return "answered"


async def ask_apart(ctx: Context[Refund]) -> str:
    return f"{ctx.result(ask)} {await ask(ctx)}"


stages = [Stage(ask), Stage(ask_apart, isolate=True)]
refunds = Pipeline("refunds", payload=Refund, stages=stages)
"""


def test_the_end_of_a_question_is_an_error_that_both_kinds_of_stages_can_name(
    project: Path, run: Run
) -> None:
    write(project, LATE, {"euros": 1})
    done = run("app:refunds", "rows.jsonl")
    told = "True runtime.wait.timed_out"
    assert done.exit_code == 0, done.stderr
    assert f'"value": "{told} {told}"' in done.stdout


ODD = """
import asyncio, os, subprocess, sys

from pydantic import BaseModel

from piecework import Dependency, PermanentError, Usage, pipeline

asyncio.run(asyncio.sleep(0, print("the module is loaded")))
paid = Dependency("paid", usage=lambda _: Usage(10), estimate=lambda *_: 10)


class Row(BaseModel):
    n: int


@paid.call
async def square(n: int) -> int:
    return n * n


@pipeline
async def odd(row: Row) -> str:
    os.write(1, b"from code in C\\n")
    if row.n == 0:
        subprocess.run([sys.executable, "-c", "print('from a child')"])
    if row.n % 2:
        code = "odd.number.five" if row.n == 5 else "odd.number.found"
        raise PermanentError(f"{row.n} is odd", code=code)
    return f"\\U0001f600 ümläut {await square(row.n)}"
"""


def test_a_spent_budget_says_what_is_done_and_what_is_left(
    project: Path, run: Run
) -> None:
    write(project, ODD, *({"n": 2 * n} for n in range(1, 41)))
    done = run("app", "rows.jsonl", "--budget-tokens", "100")
    assert (done.exit_code, len(done.stdout.splitlines())) == (4, 10)
    assert "the budget is spent: 10 done, 30 left" in done.stderr
    # There is no dead letter, and the same line would end the same way.
    assert "to go on: the same line with a higher --budget-tokens" in done.stderr
    assert "piecework jobs show --state /" in done.stderr
    assert "dlq" not in done.stderr
    assert "CANCELLED" not in done.stdout + done.stderr


def test_a_run_does_not_go_on_without_the_watch_on_its_budget(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = AsyncMock(side_effect=OSError("the watch has failed"))
    monkeypatch.setattr(run_command, "end_at_budget", broken)
    write(project, PIPELINE, {"text": "one"})
    done = run("app:words", "rows.jsonl", "--budget-tokens", "5")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "the watch has failed" in done.stderr


async def test_only_the_pause_of_a_budget_ends_a_run() -> None:
    paused = [Pause(code, code, "ann") for code in ("operator", "budget")]
    read = AsyncMock(side_effect=[SimpleNamespace(pause=each) for each in paused])
    rt, job = Mock(jobs=Mock(read=read)), Mock(cancel=AsyncMock())
    with pytest.raises(StopAsyncIteration):
        await end_at_budget(Mock(), rt, job, spent := asyncio.Event())
    job.cancel.assert_awaited_once_with("budget")
    assert spent.is_set()


async def test_a_worker_beside_ends_without_its_long_poll() -> None:
    aws = InProcessAws(Settings(receive_wait_s=20))
    async with asyncio.timeout(10), worker_beside(aws, {}, []):
        await asyncio.sleep(0)


# ── processes ────────────────────────────────────────────────────────────────


def process(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the installed command in a folder."""
    return subprocess.run(
        [Path(sys.executable).with_name("piecework"), "run", *words],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=90,
        check=False,
    )


def test_stdout_has_the_results_alone_and_each_dead_row_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a locale without umlauts, beside files with names of modules of Python."""
    write(tmp_path, ODD, *({"n": n} for n in range(10)))
    for name in ("types", "logging"):
        (tmp_path / f"{name}.py").write_text("x = 1\n", encoding="utf-8")
    ascii_ = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for name, value in {**ascii_, "PYTHONIOENCODING": "ascii"}.items():
        monkeypatch.setenv(name, value)
    done = process(tmp_path, "app", "rows.jsonl")
    values = {line["chunk"]: line.get("value") for line in results(done.stdout)}
    assert values[4] == "\U0001f600 ümläut 16"
    assert (done.returncode, len(values)) == (5, 10)
    assert "PARTIAL: 5 DEAD, 5 SUCCEEDED of 10 chunks" in done.stderr
    assert "4 dead chunks (1, 3, 7, 9): odd.number.found in odd\n" in done.stderr
    assert "dead chunk 5: odd.number.five in odd: 5 is odd" in done.stderr
    for n in (1, 3, 7, 9):
        assert f"{n} is odd" in done.stderr
    assert "from a child" in done.stderr


ASKING = """
import asyncio, time
from datetime import timedelta

from pydantic import BaseModel, Field

from piecework import Context, Pipeline, Stage


class Refund(BaseModel):
    euros: int = Field(0, validation_alias="Euros")


class Sum(BaseModel):
    euros: int


async def approve(ctx: Context[Refund]) -> bool:
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 200)
    euros, days = ctx.payload.euros, timedelta(days=3)
    if euros == 2:
        await ctx.wait_for("approval", ask="?", timeout=2, answer=Sum)
    answers = [await ctx.wait_for("approval", ask=1, timeout=days) for _ in "12"]
    return all(answer.approved for answer in answers) and euros == 1


refunds = Pipeline("refunds", payload=Refund, stages=[Stage(approve)])
"""


def test_an_option_answers_each_question_that_accepts_it(tmp_path: Path) -> None:
    """The process does not wait for the threads of a stage."""
    write(tmp_path, ASKING, {"Euros": 2}, {"Euros": 1})
    line = ("app:refunds", "rows.jsonl", "--answer")
    done = process(tmp_path, *line, 'approval={"approved": true}')
    assert (done.returncode, done.stdout.count('"value": true')) == (5, 1)
    with pytest.raises(UsageError, match="is not NAME=JSON"):
        run_command.read_answers(["approval"])


STUBBORN = """
import asyncio
from pathlib import Path
from pydantic import BaseModel
from piecework import Context, Pipeline, Stage


class Text(BaseModel):
    text: str


async def work(ctx: Context[Text]) -> str:
    Path(ctx.payload.text).touch()
    while ctx.payload.text == "stays":
        try:
            await asyncio.sleep(60)
        except BaseException:
            continue
    await asyncio.sleep(1)
    return ctx.payload.text


works = Pipeline("works", payload=Text, stages=[Stage(work)])
"""


def test_a_hangup_drains_the_run_and_ends_it_in_time(tmp_path: Path) -> None:
    write(tmp_path, STUBBORN, {"text": "stays"}, {"text": "ends"})
    command = [sys.executable, "-m", "piecework_orchestrator"]
    running = subprocess.Popen(
        [*command, "run", "app:works", "rows.jsonl"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        env={**os.environ, "PIECEWORK_SHUTDOWN_GRACE_S": "3"},
    )
    while not all((tmp_path / name).exists() for name in ("stays", "ends")):
        time.sleep(0.05)
        assert running.poll() is None

    running.send_signal(signal.SIGHUP)
    out, _ = running.communicate(timeout=3 + SHUTDOWN_MARGIN_S + 10)

    assert 128 + signal.SIGHUP == running.returncode
    assert ["ends"] == [json.loads(line)["value"] for line in out.splitlines()]
