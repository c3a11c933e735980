from __future__ import annotations

import asyncio
import io
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from pydantic import BaseModel

from piecework import Pipeline, Stage
from piecework.aws.objects import Objects
from piecework.client import Client, JobFacts
from piecework.domain.job import Job
from piecework.domain.keys import is_name
from piecework.domain.refs import JobRef
from piecework.errors import StoreError, UsageError
from piecework.settings import Settings
from piecework_orchestrator.cli import forecast
from piecework_orchestrator.cli import submit as submitting
from piecework_orchestrator.cli.options import Format
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.views.jobs import show_facts
from piecework_orchestrator.client import client as client_module
from piecework_orchestrator.operate.identity import event_job_id, new_job_id
from piecework_orchestrator.reading.job_documents import job_facts
from piecework_orchestrator.submit import submit as orchestrator_submit
from piecework_orchestrator.submit.submit import Submission
from tests.unit.orchestrator.cli.deployment import Deployment
from tests.unit.piecework.bucket import Bucket

Run = Callable[..., Any]
LONGEST_NAME = submitting.LONGEST_NAME


@pytest.fixture
def document(tmp_path: Path) -> str:
    path = tmp_path / "in.txt"
    path.write_text("one\ntwo\nthree\nfour\nfive\nsix\n")
    return str(path)


def test_a_dry_run_counts_and_needs_no_aws(run: Run, toy: str, document: str) -> None:
    done = run("submit", f"{toy}:toy", document, "--dry-run", "-o", "json")
    found = json.loads(done.stdout)
    assert (0, 6, 18) == (done.exit_code, found["chunks"], found["calls"])
    assert ["one", "two", "three", "four", "five"] == found["first_labels"]
    assert "a module that prints" in done.stderr


@pytest.mark.parametrize(
    ("sample", "first", "said"),
    [(2, 2, "2 random ones run first"), (6, None, "none: all chunks would run")],
)
def test_a_dry_run_says_what_a_sample_would_do(
    run: Run, toy: str, document: str, sample: int, first: int | None, said: str
) -> None:
    line = ("submit", f"{toy}:toy", document, "--dry-run", "--sample", str(sample))
    assert first == json.loads(run(*line, "-o", "json").stdout)["sample_chunks"]
    assert said in run(*line).stdout


@pytest.mark.parametrize(
    "option",
    [
        "--deadline 2x",
        "--deadline 9999-12-31T23:59:59-05:00",
        "--tolerate many",
        "--priority urgent",
        "--budget-usd cheap",
        "--sample 0",
    ],
)
def test_a_dry_run_refuses_the_options_that_a_submit_refuses(
    run: Run, toy: str, document: str, option: str
) -> None:
    done = run("submit", f"{toy}:toy", document, "--dry-run", *option.split())
    assert (2, "") == (done.exit_code, done.stdout)


def test_calls_that_the_pipeline_does_not_declare_are_unknown(
    run: Run, toy: str, document: str
) -> None:
    shown = run("submit", f"{toy}:other", document, "--dry-run").stdout
    assert "calls     unknown" in shown
    assert "… and 1 more" in shown


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("no_such_module_here:x", "pipeline.module.not_found"),
        ("{toy}:Line", "pipeline.object.not_a_pipeline"),
        ("{toy}:nothing", "pipeline.object.not_a_pipeline"),
        ("{toy}", "pipeline.object.not_a_pipeline"),
    ],
)
def test_an_unknown_pipeline_is_refused(
    run: Run, toy: str, document: str, name: str, code: str
) -> None:
    done = run("submit", name.format(toy=toy), document)
    assert (2, "") == (done.exit_code, done.stdout)
    assert f"error {code}" in done.stderr


def test_a_module_of_two_pipelines_names_them(
    run: Run, toy: str, document: str
) -> None:
    assert f"{toy}:toy, {toy}:other" in run("submit", toy, document).stderr


def test_an_invalid_line_is_named_before_there_is_a_job(run: Run, toy: str) -> None:
    lines = '{"text": "fine"}\n{"txet": "secret"}\n'
    done = run("submit", f"{toy}:toy", "-", "--dry-run", stdin=lines)
    assert done.exit_code == 2
    assert "error input.columns.unknown: Line 2" in done.stderr
    assert "'txet' (did you mean 'text'?)" in done.stderr
    assert "secret" not in done.stderr
    skipped = ("--dry-run", "--invalid", "skip", "-o", "json")
    done = run("submit", f"{toy}:toy", "-", *skipped, stdin=lines)
    document = json.loads(done.stdout)
    assert (document["chunks"], document["left_out"]) == (1, ["line 2"])
    assert "warning: rows were left out:" in done.stderr


@pytest.mark.parametrize("job", ["", "a/b", "a#b", "x" * 65, "ü", "a b"])
def test_an_id_that_is_not_valid_in_keys_is_refused(
    run: Run, toy: str, document: str, job: str
) -> None:
    assert 2 == run("submit", f"{toy}:toy", document, "--job-id", job).exit_code


def test_a_timeout_requires_wait(run: Run, toy: str, document: str) -> None:
    done = run("submit", f"{toy}:toy", document, "--timeout", "5s")
    assert done.exit_code == 2
    assert "--wait" in done.stderr


@pytest.mark.parametrize("span", ["soon", "5", "1.5h"])
def test_a_timeout_is_a_span_as_everywhere(
    run: Run, toy: str, document: str, span: str
) -> None:
    done = run("submit", f"{toy}:toy", document, "--wait", "--timeout", span)
    assert done.exit_code == 2
    assert f"error cli.usage.invalid: {span!r} is not a span of time" in done.stderr
    assert "30s, 15m, 1h30m or 2d" in done.stderr


def test_new_ids_are_names_that_sort_by_time() -> None:
    moments = [1.7e9, 1.75e9, 1.75e9 + 1, 1.9e9]
    ids = [new_job_id(moment) for moment in moments]
    assert sorted(ids) == ids
    assert all(is_name(each) for each in ids)
    assert new_job_id(1.8e9) != new_job_id(1.8e9)
    assert new_job_id(1_800_000_000.0).startswith("270115-080000-")


@pytest.mark.parametrize(
    ("steps", "created"),
    [
        (["read"], False),
        (["read", "written"], True),
        (["read", "sent"], True),
        (["read", "create", "written"], True),
    ],
)
@pytest.mark.parametrize(
    "cut_off", [asyncio.CancelledError(), StoreError("x", code="aws.service.throttled")]
)
async def test_an_interrupted_submit_names_the_job_that_continues(
    cut_off: BaseException,
    steps: list[str],
    *,
    created: bool,
) -> None:
    async def submit(*_: Any, on_progress: Any, **__: Any) -> Any:
        for step in steps:
            on_progress(*(("written", 0) if step == "create" else (step, 1)))
        raise cut_off

    out = Output(Format.TABLE, io.StringIO(), io.StringIO())
    client: Any = SimpleNamespace(submit=submit)
    pipeline: Any = None
    request = submitting.SubmitRequest("toy", pipeline, "in.txt", "a1")
    with pytest.raises(type(cut_off)):
        await submitting.submit_with_progress(client, out, request)
    stderr = out.stderr.getvalue()  # type: ignore[attr-defined]
    assert created is ("a1 was created; a reconciler" in stderr)
    assert created is ("next: piecework jobs watch a1" in stderr)


async def test_the_limit_of_a_submit_covers_the_sample_and_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    facts = AsyncMock(return_value=SimpleNamespace(chunks=9))
    job = SimpleNamespace(id="a1", created=True, refused=(), facts=facts)
    waiting = AsyncMock(return_value=0)
    fakes: dict[str, Any] = {
        "missing_contacts": lambda _: [],
        "submit_with_progress": AsyncMock(return_value=job),
        "await_forecast": lambda *_: asyncio.sleep(0.05, {}),
        "goes_on": AsyncMock(return_value=True),
        "wait_for": waiting,
    }
    for name, fake in fakes.items():
        module = submitting if hasattr(submitting, name) else forecast
        monkeypatch.setattr(module, name, fake)
    here: Any = SimpleNamespace(runtime=None)
    request = submitting.SubmitRequest("toy", here, "in.txt", "a1", sample=5)
    out = Output(Format.JSON, io.StringIO(), io.StringIO())
    for limit_s in (10.0, 0.01):
        await submitting.start_job(here, out, request, wait=True, limit_s=limit_s)
    most, none = [call.kwargs["limit_s"] for call in waiting.await_args_list]
    assert 9.0 < most < 9.96
    assert 0.0 == none


class Line(BaseModel):
    text: str


async def test_a_submit_interrupted_while_it_creates_the_job_names_the_job(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def lost(_: JobRef, __: object) -> None:
        raise StoreError("The reply was lost.", code="aws.service.throttled")

    async def absent(_: JobRef) -> None:
        """Find no job."""

    async def written(*_: object) -> tuple[str, str]:
        return "key", "sha256"

    monkeypatch.setattr(orchestrator_submit, "write_manifest", written)
    out = Output(Format.TABLE, io.StringIO(), io.StringIO())
    bucket = Objects(Bucket(), "bucket")  # type: ignore[arg-type]
    rt: Any = SimpleNamespace(
        identity="",
        objects=bucket,
        jobs=SimpleNamespace(create=lost, read=absent),
        work=SimpleNamespace(named=absent),
        settings=Settings(),
        clock=lambda: 0.0,
        rng=random.Random(1),
    )
    pipeline = Pipeline("p", payload=Line, stages=[Stage(lambda _: None, name="s")])
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n')
    source = str(tmp_path / "in.jsonl")
    request = submitting.SubmitRequest("toy", pipeline, source, "a1")
    async with Client(runtime=rt) as client:
        with pytest.raises(StoreError):
            await submitting.submit_with_progress(client, out, request)
    stderr = out.stderr.getvalue()  # type: ignore[attr-defined]
    assert "job a1 may have been created" in stderr
    assert "next: piecework jobs watch a1" in stderr
    assert "written" not in stderr


def test_the_name_of_a_source_is_text_whatever_its_bytes_are(
    here: Deployment, toy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted: list[Submission] = []

    async def submit(_: Any, submission: Submission, *__: Any) -> Any:
        submitted.append(submission)
        raise StoreError("Enough.", code="aws.service.throttled")

    monkeypatch.setattr(client_module, "submit", submit)
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.jsonl")
    Path(path).write_text('{"text": "one"}\n')
    assert 6 == here.run("submit", f"{toy}:toy", path).exit_code
    assert [f"{tmp_path}/caf\ufffd.jsonl"] == [each.source for each in submitted]


#: The command that raises a job's budget, and the pause by a daily budget in tokens.
SET = "piecework jobs set-budget a"
DAILY = {"pause_until": "2026-01-02T00:00:00.000Z", "pause_unit": "tokens"}


@pytest.mark.parametrize(
    ("status", "paused", "more", "step"),
    [
        ("RUNNING", "", {}, "piecework jobs watch a"),
        ("CANCELLED", "", {}, "piecework jobs retry a"),
        ("PAUSED", "operator", {}, "piecework jobs resume a"),
        ("PAUSED", "budget", {"pause_unit": "usd"}, f"{SET} --budget-usd N"),
        ("PAUSED", "budget", {"pause_unit": "tokens"}, f"{SET} --budget-tokens N"),
        ("PAUSED", "budget", DAILY, "piecework budgets set default --daily-tokens N"),
        ("SUCCEEDED", "", {}, "piecework results a"),
        ("PARTIAL", "", {}, "piecework dlq list --job a"),
    ],
)
def test_the_next_command_follows_from_the_status(
    capsys: pytest.CaptureFixture[str],
    status: str,
    paused: str,
    more: dict[str, Any],
    step: str,
) -> None:
    item = {"status": status, "gen": 1, "chunks": 1, "pipeline": "p"} | more
    item |= {"pause_code": paused, "pause_message": "x", "paused_by": "me"}
    item |= {"paused_at": "2026-01-01T00:00:00.000Z"}
    job = Job.read(JobRef("default", "a"), item)
    show_facts(Output(Format.TABLE), JobFacts.read(job_facts(job, 0.0)))
    assert f"next: {step}" in capsys.readouterr().err


def test_one_event_has_one_job_id_and_other_events_have_others() -> None:
    at = event_job_id("nightly", "2026-11-28T02:00:00Z")
    names = [
        at,
        event_job_id("nightly", "2026-11-28T03:00:00Z"),
        event_job_id("hourly", "2026-11-28T02:00:00Z"),
        # They look alike once an id has them.
        event_job_id("object", "a/b.c 1"),
        event_job_id("object", "a.b/c 1"),
        event_job_id("object", f"{'k' * 200} 1"),
        event_job_id("object", f"{'k' * 200} 2"),
        event_job_id("n" * LONGEST_NAME, "ß" * 300),
    ]
    assert at.startswith("nightly-2026-11-28T02-00-00Z-")
    assert at == event_job_id("nightly", "2026-11-28T02:00:00Z")
    assert len(set(names)) == len(names)
    assert all(is_name(name) for name in names)


@pytest.mark.parametrize("job", [None, "n" * (LONGEST_NAME + 1), "a b"])
def test_an_event_needs_a_name_with_which_its_job_id_begins(job: str | None) -> None:
    with pytest.raises(UsageError, match="--event needs --job-id"):
        submitting.id_of(job, "2026-11-28T02:00:00Z")
