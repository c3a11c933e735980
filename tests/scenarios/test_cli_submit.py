"""Commands that start a job, and what may be wrong with them."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.scenarios.command_line import COUNTING, end, manifest, piecework, start
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item

THEIRS = """
from pydantic import BaseModel
from piecework import Context, Document, Pipeline, Stage

class Line(BaseModel):
    text: str

def lines(document: Document):
    return [Line(text=line) for line in document.text.splitlines()]

async def shout(ctx: Context[Line]) -> str:
    return ctx.payload.text.upper()

review = Pipeline("review", payload=Line, split=lines, stages=[Stage(shout)])
"""


@pytest.fixture
def items(tmp_path: Path) -> str:
    return manifest(tmp_path / "items.jsonl", [Item(n=n, calls=2) for n in range(4)])


async def test_a_waited_job_ends_with_a_certificate_of_all_chunks(
    machine: Scenario, items: str
) -> None:
    await machine.process()
    done = await end(await start("submit", COUNTING, items, "--wait", "-o", "json"))
    assert 0 == done.exit_code
    assert "SUCCEEDED" == done.document["status"]
    job = done.document["job"]
    shown = await piecework("jobs", "show", job, "--certificate", "-o", "json")
    assert {"0", "1", "2", "3"} == set(shown.document["certificate"]["results"])


async def test_submitting_twice_under_one_id_makes_one_job(
    scenario: Scenario, items: str, tmp_path: Path
) -> None:
    asked = ("submit", COUNTING, items, "--job-id", "once", "-o", "json")
    first, second = await piecework(*asked), await piecework(*asked)
    assert [True, False] == [first.document["new"], second.document["new"]]
    assert ["once"] == [ref.job async for ref in scenario.rt.jobs.listed("default")]

    other = manifest(tmp_path / "other.jsonl", [Item(n=9)])
    third = await piecework("submit", COUNTING, other, "--job-id", "once")
    assert (2, "") == (third.exit_code, third.stdout)
    assert "error submit.token.conflict" in third.stderr


async def test_a_dry_run_and_a_bad_line_make_nothing(
    scenario: Scenario, items: str
) -> None:
    dry = await piecework("submit", COUNTING, items, "--dry-run", "-o", "json")
    bad = await piecework("submit", COUNTING, "-", stdin='{"n": 1}\n{"n": "secret"}\n')
    assert (0, 4) == (dry.exit_code, dry.document["chunks"])
    assert 2 == bad.exit_code
    assert "error input.rows.invalid_line: Line 2 of standard input" in bad.stderr
    assert "secret" not in bad.stderr
    assert [] == [ref async for ref in scenario.rt.jobs.listed("default")]


async def test_a_pipeline_that_no_worker_has_waits_for_one_that_has_it(
    machine: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_pkg.py").write_text(THEIRS)
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PIECEWORK_REDISPATCH_S", "0.5")
    stranger = await machine.process("--no-reconcile")
    source = str(tmp_path / "in.txt")
    await piecework("submit", "their_pkg:review", source, "--job-id", "job-1")

    async def noticed() -> bool:
        return "status_reason" in (await machine.job()).item

    await machine.until(noticed)
    shown = await piecework("jobs", "show", "job-1")
    assert "runtime.pipeline.unknown" in shown.stdout
    assert "2 PENDING" in shown.stdout
    await stranger.stop()

    await machine.process("--pipelines", "their_pkg")
    done = await piecework("results", "job-1", "--follow")
    assert 0 == done.exit_code
    assert {(0, "ONE"), (1, "TWO")} == {(x["chunk"], x["value"]) for x in done.lines}


async def test_a_watch_that_is_interrupted_is_130_and_the_job_goes_on(
    machine: Scenario, items: str
) -> None:
    await piecework("submit", COUNTING, items, "--job-id", "job-1")
    watching = await start("jobs", "watch", "job-1")
    assert watching.stderr is not None
    while b"0/4" not in await watching.stderr.readline():
        pass
    watching.send_signal(signal.SIGINT)
    done = await end(watching)
    assert 130 == done.exit_code
    assert "the job continues; next: piecework jobs watch job-1" in done.stderr
    assert "Traceback" not in done.stderr
