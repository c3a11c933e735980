from __future__ import annotations

import json
from typing import Any
from unittest.mock import AsyncMock

import pytest

from piecework.client import JobFacts, JobHandle
from piecework.domain.keys import DEFAULT_QUEUE, work_prefix
from piecework.domain.outcome import ANSWER, CHANGED_CODE, OTHER_WORKERS
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.states import JobStatus
from piecework.errors import StoreError
from piecework.explain import situation
from piecework.explain.findings import FINDINGS
from piecework.explain.situation import EFFECT_IN_DOUBT
from piecework_orchestrator.cli.progress import exit_code
from piecework_orchestrator.cli.views.jobs import cancel_text, duration_text
from piecework_orchestrator.operate import cancel as cancelling
from tests.unit.orchestrator.cli.deployment import NOW, SETTLED, Deployment

REOPENED = "2027-01-15T07:59:40.000Z"
NOTED = {"status_reason_code": "runtime.pipeline.unknown", "status_reason_at": SETTLED}


def test_the_list_shows_complete_ids_and_progress(here: Deployment) -> None:
    here.job("a" * 64, "RUNNING", 3)
    here.table.add(f"T#default#J#{'a' * 64}", "TALLY", ended_chunks={0, 2})
    outcomes = {"SUCCEEDED": 2, "DEAD": 1}
    here.job("b", "PARTIAL", 3, outcomes=outcomes, finished_at=SETTLED)
    lines = [line.split() for line in here.run("jobs", "list").stdout.splitlines()]
    assert ["b", "PARTIAL", "2/3", "toy", "2m", "ago", "1m30s"] == lines[1]
    running = ["RUNNING", "2/3", "toy", "2m", "ago", "2m", "so", "far"]
    assert ["a" * 64, *running] == lines[2]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ("", "dcba"),
        ("--status failed", "b"),
        ("--status FAILED --status RUNNING", "cba"),
        ("--pipeline rev*", "dc"),
        ("--pipeline review --status RUNNING", "c"),
        ("--since 10m", "dcba"),
        ("--since 90s", "dc"),
        ("--sort status", "cadb"),  # in the order of a job's life, the newest first
        ("--sort pipeline", "dcba"),
        ("--sort open", "cadb"),
        ("--sort took --limit 1", "a"),
        ("-n 2", "dc"),
    ],
)
def test_the_list_is_filtered_and_sorted(
    here: Deployment, options: str, names: str
) -> None:
    here.job("a", "RUNNING", 1, "2027-01-15T07:58:00.000Z")
    ended = {"finished_at": SETTLED, "outcomes": {"DEAD": 1}}
    here.job("b", "FAILED", 1, "2027-01-15T07:58:01.000Z", **ended)
    here.job("c", "RUNNING", 3, "2027-01-15T07:59:01.000Z", pipeline="review")
    ended |= {"pipeline": "review", "outcomes": {"SUCCEEDED": 2}}
    here.job("d", "SUCCEEDED", 2, "2027-01-15T07:59:02.000Z", **ended)
    done = here.run("jobs", "list", "-o", "json", *options.split())
    assert [*names] == [job["job"] for job in json.loads(done.stdout)]


def test_a_watched_list_is_written_again_until_its_jobs_have_ended(
    here: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.job("a", "RUNNING", 1)
    here.job("b", "FAILED", 1, finished_at=SETTLED)
    here.job("c", "DELETED", 1)
    polls = iter((None, "SUCCEEDED"))

    async def poll(_: float) -> None:
        if status := next(polls):
            here.job("a", status, 1, finished_at=SETTLED)

    monkeypatch.setattr("asyncio.sleep", poll)
    done = here.run("jobs", "list", "--watch", "-o", "jsonl")

    lines = [json.loads(line) for line in done.stdout.splitlines()]
    expected = "c DELETED, b FAILED, a RUNNING, a SUCCEEDED"
    found = ", ".join(f"{line['job']} {line['status']}" for line in lines)
    assert (0, expected) == (done.exit_code, found)
    assert [] == list(polls)
    assert 2 == here.run("jobs", "list", "--watch", "-o", "json").exit_code


def test_a_job_of_a_newer_version_is_not_shown_but_is_named(here: Deployment) -> None:
    here.job("a", "PAUSED", 1, v=2)
    here.job("b", "FAILED", 1)

    shown, listed = here.run("jobs", "show", "a"), here.run("jobs", "list")
    questions = here.run("approvals", "list")

    assert (shown.exit_code, shown.stdout) == (2, "")
    assert "error runtime.record.schema_too_new" in shown.stderr
    assert "next: Install that version" in shown.stderr
    assert ["b"] == [line.split()[0] for line in listed.stdout.splitlines()[1:]]
    for each in listed, questions:
        assert "not listed, because a newer version wrote them: a" in each.stderr


def test_a_limited_list_says_so(here: Deployment) -> None:
    for name in "abc":
        here.job(name, "FAILED", 1)
    done = here.run("jobs", "list", "--limit", "2")
    assert 3 == len(done.stdout.splitlines())
    assert "--limit 0" in done.stderr


def test_the_counts_of_a_job_add_up_to_its_chunks(here: Deployment) -> None:
    here.job("a", "RUNNING", 3)
    here.succeeded("a", 0, 1)
    here.chunk("a", 1, "DEAD", error_code="toy.line.bad")
    here.chunk("a", 2, "RUNNING")
    for number, state in enumerate(["DISCARDED", "OPEN", None]):  # None: it is damaged
        here.letter("a", number, state=state)
    found = here.document("jobs", "show", "a")
    assert {"DEAD": 1, "RUNNING": 1, "SUCCEEDED": 1} == found["counts"]
    assert {"toy.line.bad": 1} == found["error_codes"]
    assert 2 == found["dead_letters"]
    assert "certificate" not in found
    asked = here.run("jobs", "show", "a", "-o", "json", "--certificate")
    assert json.loads(asked.stdout)["certificate"] is None


def test_a_job_shows_its_paid_calls_and_its_cached_calls(here: Deployment) -> None:
    here.job("a", "RUNNING", 2)
    here.chunk("a", 0, "RUNNING", calls=3)
    here.chunk("a", 1, "WAITING", calls=4, cached_calls=2)
    found = here.document("jobs", "show", "a")
    calls = {"paid": 7, "cached": 2, "lost_claims": 0, "paid_again": 0}
    calls |= {"running": 0, "tokens_in": 0, "tokens_out": 0, "usd": 0}
    assert calls == found["calls"]
    assert "7, and 2 from the cache\n" in here.run("jobs", "show", "a").stdout
    here.chunk("a", 1, "WAITING", calls=4, lost_fences={1, 2})
    assert (
        "7; those of lost claims (2): piecework jobs cost a\n"
        in here.run("jobs", "show", "a").stdout
    )


def test_a_job_counts_the_calls_of_chunks_that_run(here: Deployment) -> None:
    here.job("a", "RUNNING", 2)
    used = {"paid": {"m": [4, 9_000, 1_000, 50_000_000]}, "cached": {"m": [1]}}
    here.chunk("a", 0, "RUNNING", calls=3, call_usage={"paid": {"m": [3, 2_000]}})
    here.chunk("a", 1, "RUNNING", claim_usage=used)
    calls = here.document("jobs", "show", "a")["calls"]
    assert (7, 4, 1) == tuple(calls[name] for name in ("paid", "running", "cached"))
    assert (11_000, 1_000, 0.05) == (
        *(calls["tokens_in"], calls["tokens_out"], calls["usd"]),
    )
    shown = here.run("jobs", "show", "a").stdout
    told = "7, 4 of them in chunks that run, and 1 from the cache; 12,000 tokens; "
    assert f"{told}0.050 USD\n" in shown


@pytest.mark.parametrize("status", ["PARTIAL", "CANCELLED"])
def test_an_ended_job_shows_its_certificate_and_the_next_command(
    here: Deployment, status: str
) -> None:
    missing = [{"chunk": 1, "label": "", "status": "DEAD", "error_code": "x.y.z"}]
    facts = {"chunks": 2, "results": {"0": "ab"}, "manifest_sha256": "cd" * 32}
    outcomes = {"SUCCEEDED": 1, "DEAD": 1}
    kept = here.certificate("a", missing=missing, outcomes=outcomes, **facts)
    here.job("a", status, 2, finished_at=SETTLED, **kept)
    here.letter("a", 1)
    shown = here.run("jobs", "show", "a").stdout
    assert "1 of 2 results; missing: 1; manifest cdcdcdcdcdcd" in shown
    assert "next          piecework dlq list --job a" in shown


def test_the_certificate_of_a_very_large_job_is_shown(here: Deployment) -> None:
    results = {str(number): "ab" * 32 for number in range(60_000)}
    facts = {"chunks": 60_000, "manifest_sha256": "cd" * 32, "error_codes": {}}
    facts |= {"outcomes": {"SUCCEEDED": 60_000}, "outages": 0}
    facts |= {"calls": {"paid": 7, "cached": 0, "lost_claims": 0}}
    kept = here.certificate("a", **facts, results=results, missing=[])
    counted = {"outcomes": facts["outcomes"], "finished_at": SETTLED}
    here.job("a", "SUCCEEDED", 60_000, **counted, **kept)

    shown = here.run("jobs", "show", "a").stdout
    document = here.document("jobs", "show", "a", "--certificate")

    assert "60000 of 60000 results; manifest cdcdcdcdcdcd" in shown
    assert ["calls", "7"] in [line.split() for line in shown.splitlines()]
    assert results == document["certificate"]["results"]
    assert (0, 0) == (document["calls"]["paid_again"], document["effects_in_doubt"])


def test_a_certificate_that_was_changed_is_not_shown(here: Deployment) -> None:
    kept = here.certificate("a", chunks=1)
    here.job("a", "SUCCEEDED", 1, **kept)
    here.bucket.stored[kept["certificate"]] += b" "
    done = here.run("jobs", "show", "a")
    assert done.exit_code == 1
    assert "error runtime.payload.corrupt" in done.stderr


def test_a_reopened_job_has_not_finished(here: Deployment) -> None:
    again: dict[str, Any] = {"gen": 2, "reopened_by": "me", "reopened_at": REOPENED}
    here.job("a", "RUNNING", 1, finished_at=SETTLED, **again)
    here.job("b", "FAILED", 1, finished_at="2027-01-15T07:59:50.000Z", **again)
    found = here.document("jobs", "show", "a")
    assert "finished_at" not in found
    # The time before it was reopened does not count.
    shown = " ".join(here.run("jobs", "show", "a").stdout.split())
    assert f"took 20s (gen 2) so far reopened 1 x, last at {REOPENED} by me" in shown
    listed = [
        line.split()[-4:] for line in here.run("jobs", "list").stdout.splitlines()[1:]
    ]
    took = ["(gen", "2)"]
    assert [["ago", "10s", *took], [*took, "so", "far"]] == listed


def test_a_status_reason_is_shown_until_the_job_ends(here: Deployment) -> None:
    noted = NOTED | {"status_reason": "worker w1 does not have pipeline toy"}
    here.job("a", "RUNNING", 1, **noted)
    here.job("b", "SUCCEEDED", 1, **noted)
    here.job("c", "RUNNING", 1, status_reason_until=SETTLED, **noted)
    shown = here.run("jobs", "show", "a").stdout
    assert "runtime.pipeline.unknown: worker w1 does not have pipeline toy" in shown
    assert "piecework worker --pipelines MODULE" in shown
    for over in ("b", "c"):
        assert "pipeline.unknown" not in here.run("jobs", "show", over).stdout
        assert (
            "status_reason" not in here.run("jobs", "show", over, "-o", "json").stdout
        )


def test_a_status_reason_is_over_once_a_worker_has_the_pipeline(
    here: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.job("a", "RUNNING", 1, status_reason="w1 has no toy", **NOTED)
    waits = {"blocked_on": ANSWER, "question": "approval", "retry_at": "2099-01-01"}
    here.chunk("a", 0, "WAITING", **waits)
    shown = here.run("jobs", "show", "a").stdout
    assert "runtime.pipeline.unknown" not in shown
    assert "piecework approvals list --job a" in shown
    # A role of one tenant cannot read whether a worker has it.
    denied = AsyncMock(side_effect=StoreError("denied", code=situation.ACCESS_DENIED))
    monkeypatch.setattr(situation, "read_reports", denied)
    shown = here.run("jobs", "show", "a").stdout
    assert "runtime.pipeline.unknown: w1 has no toy" in shown
    assert "piecework worker --pipelines MODULE" in shown
    here.chunk("a", 0, "PENDING")
    assert "w1 has no toy" in here.run("jobs", "show", "a").stdout
    here.chunk("a", 0, "RUNNING", claim_expires_at="2099-01-01T00:00:00Z")
    assert "w1 has no toy" not in here.run("jobs", "show", "a").stdout


def test_a_reason_from_before_a_retry_does_not_advise_another_worker(
    here: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JobHandle, "retry", AsyncMock(return_value=1))
    nexts = []
    for reopened in (SETTLED, REOPENED):  # the reason was noted at SETTLED
        noted = {"status_reason": "w1 has no toy", **NOTED, "reopened_at": reopened}
        here.job("a", "RUNNING", 1, **noted)
        said = here.run("jobs", "retry", "a", "--reason", "why").stderr
        nexts.append(said.rpartition("next: ")[2].split("  ")[0].strip())
    assert ["piecework worker --pipelines MODULE", "piecework jobs watch a"] == nexts


def test_a_retry_without_a_chunk_promises_no_join_and_names_what_it_left(
    here: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def retry(*_: object, unreadable: list[ChunkRef], **__: object) -> int:
        unreadable.append(ChunkRef("default", "a", 7))
        return 0

    here.job("a", "FAILED", 1)
    monkeypatch.setattr(JobHandle, "retry", retry)
    done = here.run("jobs", "retry", "a", "--reason", "why")
    assert "the job ends again in generation 1" in done.stderr
    asked = here.run("jobs", "delete", "a", "--reason", "why").stderr
    assert "(FAILED, 1 chunk)" in asked
    effect = {"effect_key": "key-1", "state": "UNKNOWN", "started_at": SETTLED}
    here.table.add("T#default#J#a", f"{work_prefix(0)}EFFECT#key-1", **effect)
    here.letter("a", 0, error_code=EFFECT_IN_DOUBT)
    here.letter("a", 1, error_history=1)  # damaged
    asked = here.run("jobs", "delete", "a", "--reason", "why").stderr
    assert "1 chunk, with 2 open dead letters and 1 effect in doubt" in asked
    assert "Check what the command will change, then add `--yes`" in asked
    assert ("a/7\n" in done.stderr, done.exit_code) == (True, 5)


STOPPED = {"error_code": "runtime.code.changed", "stage": "ship"}
COMPLETED = {"stage": "pay", "gen": 1, "stage_number": 1, "finished_at": SETTLED}
CHARGE = {"effect_key": "k", "state": "DONE", "stage": "pay", "started_at": SETTLED}
CHARGE |= {"called": "shop:charge", "dependency": "bank", "effect": "NON_IDEMPOTENT"}


@pytest.mark.parametrize("charged", [True, False])
def test_a_preview_of_a_stopped_chunk_says_what_its_completed_stages_did(
    here: Deployment, *, charged: bool
) -> None:
    here.job("a", "RUNNING", 1)
    preview = ("jobs", "accept-changes", "a", "--dry-run")
    assert "newer code has stopped no chunk\n" == here.run(*preview).stderr
    here.chunk("a", 0, "WAITING", **STOPPED)
    if charged:
        here.table.add("T#default#J#a", f"{work_prefix(0)}STAGE#pay", **COMPLETED)
        here.table.add("T#default#J#a", f"{work_prefix(0)}EFFECT#k", **CHARGE)
    done = here.run(*preview)
    assert "1 chunk would go on" in done.stderr
    assert "has stopped no chunk" not in done.stderr
    assert ("no act of an earlier claim is on record" in done.stderr) is not charged
    assert ("charge of bank in pay: DONE" in done.stderr) is charged
    found = here.document(*preview)
    assert [("pay", "DONE")] * charged == [
        (kind["stage"], kind["state"]) for kind in found["kinds"]
    ]


def test_each_view_of_a_stopped_chunk_names_both_ways_on(here: Deployment) -> None:
    here.job("a", "RUNNING", 1)
    waits = {"retry_at": "2027-01-15T08:05:00Z", "blocked_on": OTHER_WORKERS}
    here.chunk("a", 0, "WAITING", **STOPPED | waits)
    due = {"reported_at": SETTLED, "due_at": "2027-01-15T08:00:30Z"}
    has = {"pipelines": ["toy"], "queues": [DEFAULT_QUEUE], "dependencies": []}
    free = {"worker": "w-1", "max_chunks": 4, "in_progress": 0, "lease_ms": 18_000}
    here.table.add("WORKERS", "w-1", code_versions={"toy": "v2"}, **due, **has, **free)
    here.job("b", "FAILED", 1, finished_at=SETTLED)
    here.chunk("b", 0, "DEAD", **STOPPED)
    here.letter("b", 0, error_code=CHANGED_CODE)
    for words, job in (
        (("jobs", "show", "a"), "a"),
        (("jobs", "explain", "a"), "a"),
        (("chunks", "show", "a", "0"), "a"),
        (("jobs", "explain", "b"), "b"),
        (("chunks", "show", "b", "0"), "b"),
        (("explain-code", CHANGED_CODE), "JOB"),
    ):
        done = here.run(*words)
        said = " ".join((done.stdout + done.stderr).split())
        assert f"piecework jobs accept-changes {job} --dry-run" in said, words
        assert "version before" in said, words


@pytest.mark.parametrize("version", ["", "v2", "rel-9"])
def test_an_acceptance_for_a_version_that_no_worker_has_is_warned_about(
    here: Deployment, version: str
) -> None:
    here.job("a", "RUNNING", 1)
    here.chunk("a", 0, "WAITING", **STOPPED)
    here.table.add("WORKERS", "w-1", code_versions={"toy": "v2", "other": "rel-9"})
    accept = ("jobs", "accept-changes", "a", "--reason", "why")
    said = here.run(*accept, *(("--code-version", version) if version else ())).stderr
    warning = (
        "no worker with pipeline toy has reported code version rel-9; reported: v2"
    )
    assert (warning in " ".join(said.split())) is (version == "rel-9")
    assert "cli.confirmation.needed" in said


def test_a_finding_asks_for_a_reason_only_where_its_command_needs_one(
    here: Deployment,
) -> None:
    here.job("a", "RUNNING", 1)
    commands = [kind.command for kind in FINDINGS.values()]
    assert "piecework jobs unpin {job}" in commands
    for command in commands:
        words, reason, _ = command.partition(" --reason")
        if reason:
            said = here.run(*words.replace("{job}", "a").split()[1:]).stderr
            assert "cli.reason.missing" in said


def test_a_deleted_job_takes_no_more_time_and_a_missing_reason_has_no_colon() -> None:
    assert JobFacts("a", "toy", JobStatus.DELETED, 1, 1, {}).ended
    assert duration_text({"status": "DELETED", "created_at": SETTLED}, NOW) == ""
    told = {"cancelled_by": "me", "cancel_reason": ""}
    assert cancel_text({"status": "CANCELLED", "cancel": told}) == "by me"


@pytest.mark.parametrize(
    ("status", "letters", "code"),
    [
        ("SUCCEEDED", 0, 0),
        ("PARTIAL", 0, 1),
        ("PARTIAL", 2, 5),
        ("FAILED", 2, 1),
        ("CANCELLED", 1, 4),
    ],
)
def test_a_watched_job_ends_with_its_exit_code(
    here: Deployment, status: str, letters: int, code: int
) -> None:
    here.job("a", status, 2)
    for number in range(letters):
        here.letter("a", number)
    assert code == here.run("jobs", "watch", "a").exit_code
    assert code == exit_code({"status": status, "dead_letters": letters})
    shown = here.run("jobs", "show", "a")
    assert 0 == shown.exit_code
    # Without an open letter, only a list of all leads to the closed ones.
    assert ("--all" in shown.stdout) == (status == "PARTIAL" and not letters)


def test_a_watch_that_times_out_says_that_the_job_continues(here: Deployment) -> None:
    here.job("a", "RUNNING", 1)
    done = here.run("jobs", "watch", "a", "--timeout", "0s")
    assert (7, True) == (done.exit_code, "error cli.wait.timeout" in done.stderr)
    assert "piecework jobs watch a" in done.stderr


def test_the_events_of_a_job_are_in_order_with_its_deaths(here: Deployment) -> None:
    ended = "2027-01-15T07:59:59.000Z"
    here.job("a", "PARTIAL", 2, finished_at=ended)
    here.letter("a", 1)
    row = {"v": 1, "event": "finished", "at": ended, "job": "a", "status": "PARTIAL"}
    row["reason"] = ""
    here.table.add(JobRef("default", "a").pk, f"EVENT#{ended}#finished#1", **row)
    lines = here.run("jobs", "events", "a", "-o", "jsonl").stdout.splitlines()
    found = [json.loads(line) for line in lines]
    assert ["submitted", "died", "finished"] == [each["event"] for each in found]
    assert {"status": "PARTIAL", "reason": ""} == found[-1]["facts"]
    shown = here.run("jobs", "events", "a").stdout.splitlines()[-1]
    assert ("PARTIAL" in shown, "reason" in shown) == (True, False)


@pytest.mark.parametrize(("chunks", "reported"), [(3, False), (60_000, True)])
def test_a_large_cancel_reports_when_it_is_on_record(
    here: Deployment, monkeypatch: pytest.MonkeyPatch, chunks: int, *, reported: bool
) -> None:
    async def interrupted(*_: object) -> None:
        raise StoreError("no answer", code="aws.service.throttled")

    monkeypatch.setattr(cancelling, "sweep", interrupted)
    here.job("a", "CANCELLING", chunks, cancelled_at=SETTLED)
    done = here.run("jobs", "cancel", "a", "--yes")
    said = "the cancel is recorded; cancelling 60,000 chunks"
    assert reported is (said in done.stderr)


@pytest.mark.parametrize(
    ("command", "status", "by", "step"),
    [
        ("resume", "CANCELLED", "operator", "piecework jobs retry a"),
        ("resume", "RUNNING", "operator", "piecework jobs show a"),
        ("pause", "FAILED", "operator", "piecework jobs show a"),
        ("pause", "FINALIZING", "operator", "its join runs"),
        ("pause", "PAUSED", "operator", "piecework jobs resume a"),
        ("pause", "PAUSED", "pipeline", "piecework pipelines resume toy"),
    ],
)
def test_a_pause_and_a_resume_name_the_command_that_fits_the_status(
    here: Deployment, command: str, status: str, by: str, step: str
) -> None:
    code = f"job.state.not_{'pausable' if command == 'pause' else 'paused'}"
    pause = {"pause_code": by, "pause_message": "x", "paused_by": "you"}
    here.job("a", status, 1, **pause, paused_at=SETTLED)
    done = here.run("jobs", command, "a", "--reason", "x")
    assert 2 == done.exit_code
    assert code in done.stderr
    assert step in done.stderr


def test_a_paused_job_says_why_in_each_view(here: Deployment) -> None:
    pause = {"pause_code": "operator", "pause_message": "price", "paused_by": "you"}
    here.job("a", "PAUSED", 1, **pause, paused_at=SETTLED)
    shown = here.run("jobs", "show", "a").stdout
    assert "PAUSED" in shown
    assert "operator: price  (by you" in shown
    assert "piecework jobs resume a" in shown
    assert "PAUSED (operator)" in here.run("jobs", "list").stdout
