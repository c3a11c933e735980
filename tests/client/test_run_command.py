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
from piecework.settings import Settings
from piecework_orchestrator.embedded.server import find
from piecework_simulation.in_process import InProcessAws, worker_beside
from piecework_simulation.run_command import end_at_budget
from piecework_worker.worker import SHUTDOWN_MARGIN_S

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


def run_command(
    folder: Path, *arguments: str, encoding: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder."""
    command = [sys.executable, "-m", "piecework_orchestrator", "run", *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        encoding=encoding,
        timeout=90,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder that holds the pipeline."""
    (tmp_path / "app.py").write_text(PIPELINE, encoding="utf-8")
    return tmp_path


def test_results_go_to_stdout_and_causes_to_stderr(project: Path) -> None:
    rows = [{"text": "one"}, {"text": ""}, {"text": "two words"}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (project / "rows.jsonl").write_text(lines, encoding="utf-8")

    done = run_command(project, "app:words", "rows.jsonl", "--save", "out")

    results = [json.loads(line) for line in done.stdout.splitlines()]
    values = {each["chunk"]: each.get("value") for each in results}
    assert values == {0: 1, 1: None, 2: 2}
    assert done.returncode == 5  # dead letters are left
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
    project: Path,
) -> None:
    (project / "app.py").write_text(REFUSED, encoding="utf-8")
    (project / "rows.jsonl").write_text('{"n": 1}\n{"n": 2}\n', encoding="utf-8")

    done = run_command(project, "app:numbers", "rows.jsonl")

    assert (done.returncode, done.stdout.count("SUCCEEDED")) == (0, 2)
    said = "gpt refuses calls (429) and has no limit; next: declare limits=Limits("
    assert done.stderr.count(said) == 1


def test_a_join_that_failed_is_named(project: Path) -> None:
    (project / "rows.jsonl").write_text(json.dumps({"text": "a " * 101}), "utf-8")
    done = run_command(project, "app:words", "rows.jsonl")
    assert "dead join: runtime.stage.permanent" in done.stderr


def test_an_embedded_aws_of_its_own_is_used_and_ended(
    project: Path, emulator_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*ENDPOINT_VARIABLES, "PIECEWORK_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)
    (project / "rows.jsonl").write_text('{"text": "one"}\n', encoding="utf-8")
    own = 'assert not __import__("pathlib").Path(".piecework").exists()'
    code = PIPELINE.replace('print("a stage may print")', own)
    (project / "app.py").write_text(code, encoding="utf-8")

    done = run_command(project, "app:words", "rows.jsonl", "--aws", "embedded")

    assert done.returncode == 0, done.stderr
    assert [1] == [json.loads(line)["value"] for line in done.stdout.splitlines()]
    assert ((project / ".piecework").exists(), find(project)) == (False, None)


def test_the_pipeline_of_the_readme_runs(tmp_path: Path) -> None:
    code, again = map(first_code, (ROOT / "README.md", ROOT / "docs" / "programs.md"))
    assert code.split() == again.split()
    (tmp_path / "app.py").write_text(code, encoding="utf-8")
    rows = '{"text": "one two"}\n{"text": "three"}\n'
    (tmp_path / "rows.jsonl").write_text(rows, encoding="utf-8")

    done = run_command(tmp_path, "app:word_count", "rows.jsonl")

    values = [json.loads(line)["value"] for line in done.stdout.splitlines()]
    assert (done.returncode, sorted(values)) == (0, [1, 2])
    written = [line for line in code.splitlines() if line.strip()]
    assert len(written) <= MAX_LINES_OF_OWN_PIPELINE


def first_code(page: Path) -> str:
    """Return the first block of Python of a page, without its comments."""
    block = page.read_text("utf-8").partition("```python\n")[2].partition("```")[0]
    return re.sub(r" +#.*", "", block)


def test_rows_that_do_not_fit_are_left_out_or_dead_as_the_command_says(
    project: Path,
) -> None:
    lines = '{"text": "a b"}\n{"txt": "c"}\nno json\n'
    (project / "rows.jsonl").write_text(lines)
    for action, counted, code in (
        ("refuse", "2 rows of rows.jsonl are refused", 2),
        ("skip", "warning: rows were left out:", 0),
        ("dead", "warning: rows were made dead letters:", 5),
    ):
        done = run_command(project, "app:words", "rows.jsonl", "--invalid", action)
        assert counted in done.stderr
        assert "'txt' (did you mean 'text'?)" in done.stderr
        assert "Line 3 of rows.jsonl does not fit Text" in done.stderr
        values = [json.loads(line).get("value") for line in done.stdout.splitlines()]
        assert [v for v in values if v is not None] == [2] * (action != "refuse")
        assert done.returncode == code


def test_a_wrong_line_is_named_and_nothing_runs(project: Path) -> None:
    (project / "rows.jsonl").write_text('{"text": "a"}\n{"txt": 1}\n', encoding="utf-8")

    done = run_command(project, "app:words", "rows.jsonl")

    assert (done.returncode, done.stdout) == (2, "")
    assert "input.columns.unknown: Line 2 of rows.jsonl" in done.stderr


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


def test_an_option_answers_each_question_that_accepts_it(project: Path) -> None:
    (project / "asking.py").write_text(ASKING, encoding="utf-8")
    (project / "rows.jsonl").write_text('{"Euros": 2}\n{"Euros": 1}\n', "utf-8")
    line = ("asking:refunds", "rows.jsonl", "--answer")

    done = run_command(project, *line, 'approval={"approved": true}')
    odd = run_command(project, *line, "approval")

    assert (done.returncode, done.stdout.count('"value": true')) == (5, 1)
    assert (odd.returncode, "is not NAME=JSON" in odd.stderr) == (2, True)


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
    project: Path,
) -> None:
    (project / "late.py").write_text(LATE, encoding="utf-8")
    (project / "rows.jsonl").write_text('{"euros": 1}\n', "utf-8")

    done = run_command(project, "late:refunds", "rows.jsonl")

    told = "True runtime.wait.timed_out"
    assert done.returncode == 0, done.stderr
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


def test_stdout_has_the_results_alone_and_each_dead_row_is_told(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "odd.py").write_text(ODD, encoding="utf-8")
    rows = "".join(f'{{"n": {n}}}\n' for n in range(10))
    (project / "rows.jsonl").write_text(rows, encoding="utf-8")
    ascii_ = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for name, value in {**ascii_, "PYTHONIOENCODING": "ascii"}.items():
        monkeypatch.setenv(name, value)

    done = run_command(project, "odd", "rows.jsonl", encoding="utf-8")

    lines = [json.loads(line) for line in done.stdout.splitlines()]
    values = {line["chunk"]: line.get("value") for line in lines}
    assert values[4] == "\U0001f600 ümläut 16"
    assert (done.returncode, len(values)) == (5, 10)
    assert "PARTIAL: 5 DEAD, 5 SUCCEEDED of 10 chunks" in done.stderr
    assert "4 dead chunks (1, 3, 7, 9): odd.number.found in odd\n" in done.stderr
    assert "dead chunk 5: odd.number.five in odd: 5 is odd" in done.stderr
    for n in (1, 3, 7, 9):
        assert f"{n} is odd" in done.stderr
    assert "from a child" in done.stderr


def test_a_spent_budget_says_what_is_done_and_what_is_left(project: Path) -> None:
    (project / "odd.py").write_text(ODD, encoding="utf-8")
    rows = "".join(f'{{"n": {2 * n}}}\n' for n in range(40))
    (project / "rows.jsonl").write_text(rows, encoding="utf-8")

    done = run_command(project, "odd", "rows.jsonl", "--budget-tokens", "100")

    assert (done.returncode, len(done.stdout.splitlines())) == (4, 10)
    assert "the budget is spent: 10 done, 30 left" in done.stderr
    assert "CANCELLED" not in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["types", "logging"])
def test_a_file_with_the_name_of_a_module_of_python_does_no_harm(
    project: Path, name: str
) -> None:
    (project / f"{name}.py").write_text("x = 1\n", encoding="utf-8")
    (project / "rows.jsonl").write_text('{"text": "one two"}\n', encoding="utf-8")
    command = Path(sys.executable).with_name("piecework")

    done = subprocess.run(
        [command, "run", "app:words", "rows.jsonl"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )

    assert (done.returncode, json.loads(done.stdout)["value"]) == (0, 2), done.stderr


BROKEN = """
import __main__ as command
async def broken(*_): raise OSError("the watch has failed")
command.end_at_budget = broken
"""


def test_a_run_does_not_go_on_without_the_watch_on_its_budget(project: Path) -> None:
    (project / "app.py").write_text(PIPELINE + BROKEN, encoding="utf-8")
    (project / "rows.jsonl").write_text('{"text": "one"}\n', encoding="utf-8")

    done = run_command(project, "app:words", "rows.jsonl", "--budget-tokens", "5")

    assert (done.returncode, done.stdout) == (1, "")
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
    await asyncio.sleep(2)
    return ctx.payload.text


works = Pipeline("works", payload=Text, stages=[Stage(work)])
"""


def test_a_hangup_drains_the_run_and_ends_it_in_time(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(STUBBORN, encoding="utf-8")
    rows = '{"text": "stays"}\n{"text": "ends"}\n'
    (tmp_path / "rows.jsonl").write_text(rows, encoding="utf-8")
    command = [sys.executable, "-m", "piecework_orchestrator"]
    running = subprocess.Popen(
        [*command, "run", "app:works", "rows.jsonl"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        env={**os.environ, "PIECEWORK_SHUTDOWN_GRACE_S": "5"},
    )
    while not all((tmp_path / name).exists() for name in ("stays", "ends")):
        time.sleep(0.05)
        assert running.poll() is None

    running.send_signal(signal.SIGHUP)
    out, _ = running.communicate(timeout=5 + SHUTDOWN_MARGIN_S + 10)

    assert 128 + signal.SIGHUP == running.returncode
    assert ["ends"] == [json.loads(line)["value"] for line in out.splitlines()]
