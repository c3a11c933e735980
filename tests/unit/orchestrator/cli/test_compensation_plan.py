from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.refs import JobRef
from tests.unit.orchestrator.cli.deployment import SETTLED, Deployment

Run = Callable[..., Any]
MODULE = """
from pydantic import BaseModel
from piecework import Context, Pipeline, Stage

class Trip(BaseModel):
    n: int

async def flight(ctx: Context[Trip]) -> str: ...
async def cancel_flight(ctx: Context[Trip]) -> None: ...
async def letter(ctx: Context[Trip]) -> None: ...
async def hotel(ctx: Context[Trip]) -> str: ...
async def cancel_hotel(ctx: Context[Trip]) -> None: ...
async def car(ctx: Context[Trip]) -> str: ...
async def cancel_car(ctx: Context[Trip]) -> None: ...
async def pay(ctx: Context[Trip]) -> str: ...
async def tell(ctx: Context[Trip]) -> None: ...

trips = Pipeline("trips", payload=Trip, stages=[
    Stage(flight, compensate=cancel_flight),
    Stage(letter),
    Stage(hotel, compensate=cancel_hotel),
    Stage(car, compensate=cancel_car, reversibility="hard"),
    Stage(pay, pivot=True),
    Stage(tell),
])
other = Pipeline("other", payload=Trip, stages=[Stage(flight)])
"""
PLAN = ("jobs", "cancel", "a", "--compensate", "--dry-run")
TRIPS = "trips_of_a_test:trips"


@pytest.fixture(autouse=True)
def module(tmp_path: Path) -> Iterator[None]:
    (tmp_path / "trips_of_a_test.py").write_text(MODULE)
    sys.path.insert(0, str(tmp_path))
    yield
    sys.path.remove(str(tmp_path))
    sys.modules.pop("trips_of_a_test", None)


@pytest.fixture(autouse=True)
def job(here: Deployment) -> None:
    here.job("a", "RUNNING", 6, pipeline="trips")
    here.chunk("a", 0, "SUCCEEDED", stage="tell")
    here.chunk("a", 1, "RUNNING", stage="car", stages=done("flight letter hotel"))
    here.chunk("a", 2, "PENDING", stage="flight", fence=0)
    past = done("flight letter hotel car pay")
    here.chunk("a", 3, "WAITING", stage="tell", stages=past)
    here.chunk("a", 4, "DEAD", stage="hotel")
    here.chunk("a", 5, "WAITING", stage="flight")
    write(here, 1, "EFFECT#k", stage="letter", state="DONE")
    write(here, 1, "EFFECT#l", stage="car", state="INTENT")
    write(here, 5, "EFFECT#m", stage="flight", state="REFUSED")


def done(stages: str) -> dict[str, Any]:
    """Return the completed stages of a chunk's row."""
    names = stages.split()
    return {n: {"finished_at": SETTLED, "number": names.index(n) + 1} for n in names}


def write(deployment: Deployment, chunk: int, sk: str, **row: Any) -> None:
    facts = {"started_at": SETTLED, "finished_at": SETTLED}
    place = JobRef("default", "a").pk, f"{keys.work_prefix(chunk)}{sk}"
    deployment.table.add(*place, **facts | row)


def steps(run: Run, *words: str) -> list[list[str]]:
    """Return chunk, stage, state and compensation function of each step of a plan."""
    done = run(*PLAN, *words, "-o", "jsonl")
    assert 0 == done.exit_code, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    names = ("chunk", "stage", "state", "compensate")
    return [[str(row[name]) for name in names] for row in found]


def test_a_plan_is_in_the_order_of_compensation(run: Run) -> None:
    assert [
        ["1", "car", "in doubt", "cancel_car"],
        ["1", "hotel", "done", "cancel_hotel"],
        ["1", "letter", "effect remains, no compensation", "None"],
        ["1", "flight", "done", "cancel_flight"],
    ] == steps(run, "--chunk", "1", "--pipeline", TRIPS)


def test_a_plan_covers_the_chunks_that_were_started_and_have_not_ended(
    run: Run,
) -> None:
    found = steps(run, "--pipeline", TRIPS)
    assert ["1", "3", "5"] == list(dict.fromkeys(row[0] for row in found))
    refused = "no effect happened: not compensated"
    assert [["5", "flight", refused, "cancel_flight"]] == found[-1:]


def test_a_chunk_past_the_pivot_goes_forward(run: Run) -> None:
    found = steps(run, "--chunk", "3", "--pipeline", TRIPS)
    assert ["tell", "pay", "car", "hotel", "letter", "flight"] == [r[1] for r in found]
    assert {"past the pivot: goes forward"} == {row[2] for row in found}


def test_a_compensating_chunk_continues_its_compensation(here: Deployment) -> None:
    error = {"code": "tool.stock.none", "error_class": "permanent", "message": "no"}
    why, failed = json.dumps(error | {"stage": "pay"}), json.dumps(error)
    stages, back = done("flight letter hotel"), "compensating"
    here.chunk("a", 1, "RUNNING", stage="pay", direction=back, stages=stages)
    write(here, 1, "COMPENSATION#0001", stage="pay", error=why)
    write(here, 1, "COMPENSATED#0001#car", stage="car")
    write(here, 1, "COMPENSATED#0001#hotel", stage="hotel", error=failed)
    assert [
        ["pay", "nothing to compensate"],
        ["car", "compensated"],
        ["hotel", "compensation failed"],
        ["letter", "effect remains, no compensation"],
        ["flight", "done"],
    ] == [row[1:3] for row in steps(here.run, "--chunk", "1", "--pipeline", TRIPS)]


def test_a_plan_without_pipeline_shows_only_the_record(here: Deployment) -> None:
    write(here, 1, "EFFECT#u", stage="compensate:car:1", state="DONE")
    assert [
        ["1", "car", "in doubt", "None"],
        ["1", "letter", "done", "None"],
        ["1", "hotel", "done", "None"],
        ["1", "flight", "done", "None"],
    ] == steps(here.run, "--chunk", "1")
    shown = here.run(*PLAN, "--chunk", "1")
    assert "add --pipeline" in shown.stderr
    assert "unknown" not in shown.stdout


def test_a_large_plan_is_limited_and_says_so(run: Run) -> None:
    done = run(*PLAN, "--pipeline", TRIPS, "--limit", "1")
    assert "only the first 1 chunks are listed; --limit 0 lists all" in done.stderr
    assert {"1"} == {line.split()[0] for line in done.stdout.splitlines()[1:]}


@pytest.mark.parametrize("status", ["SUCCEEDED", "FINALIZING", "CANCELLING"])
def test_the_plan_is_empty_if_a_cancel_cannot_compensate(
    here: Deployment, status: str
) -> None:
    here.job("a", status, 6, pipeline="trips")
    done = here.run(*PLAN, "--pipeline", TRIPS)
    assert (0, "") == (done.exit_code, done.stdout)
    assert f"nothing to compensate; the job is {status}" in done.stderr


def test_the_pipeline_must_be_the_pipeline_of_the_job(here: Deployment) -> None:
    done = here.run(*PLAN, "--pipeline", "trips_of_a_test:other")
    assert 2 == done.exit_code
    assert "Job a belongs to pipeline trips, not other." in done.stderr
    here.chunk("a", 1, "RUNNING", stage="train")
    done = here.run(*PLAN, "--chunk", "1", "--pipeline", TRIPS)
    assert 2 == done.exit_code
    assert "error runtime.stage.not_found" in done.stderr


@pytest.mark.parametrize("chunk", ["0", "2", "4"])
def test_chunks_that_ended_or_never_started_are_not_in_the_plan(
    run: Run, chunk: str
) -> None:
    assert [] == steps(run, "--chunk", chunk, "--pipeline", TRIPS)


def test_a_plan_reads_no_calls_and_no_chunk_beyond_its_limit(
    here: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefixes, query_table = [], here.table.query

    def query(pk: str, prefix: str = "", **more: Any) -> Any:
        prefixes.append(prefix)
        return query_table(pk, prefix, **more)

    monkeypatch.setattr(here.table, "query", query)
    here.run(*PLAN, "--pipeline", TRIPS, "--limit", "1")

    # The chunk beyond the limit shows that there are more.
    works = [prefix.split("#") for prefix in prefixes if prefix.startswith("WORK#")]
    assert {"00000001", "00000003"} == {work[1] for work in works}
    assert {"EFFECT", "STAGE", "COMPENSATED"} == {work[2] for work in works}


@pytest.mark.parametrize(
    "options", [["--dry-run"], ["--compensate", "--chunk", "1"], ["--pipeline", TRIPS]]
)
def test_options_of_the_plan_need_a_dry_run_that_compensates(
    run: Run, options: list[str]
) -> None:
    done = run("jobs", "cancel", "a", *options)
    assert 2 == done.exit_code
    assert "error cli.usage.invalid" in done.stderr
