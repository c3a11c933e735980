from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from piecework.domain.keys import work_prefix
from piecework.errors import NotFoundError, StoreError, UsageError
from piecework.errors.fingerprint import fingerprint
from piecework.explain.situation import EFFECT_IN_DOUBT
from piecework.settings import Settings
from piecework_orchestrator.dead_letters import closing
from piecework_orchestrator.dead_letters.redrive import RedriveRequest
from piecework_orchestrator.reading.selection import Filter, select
from tests.unit.orchestrator.cli.deployment import SETTLED, Deployment

Run = Callable[..., Any]
BAD_LINE = fingerprint("llm.http.503", "shout", "The line is bad.")


@pytest.fixture(autouse=True)
def letters(here: Deployment) -> None:
    here.job("a", "PARTIAL", 3)
    here.job("b", "PARTIAL", 1)
    here.letter(
        "a", 0, error_code="llm.http.500", dead_lettered_at="2027-01-15T07:00:00.000Z"
    )
    here.letter("a", 1, stage="publish")
    here.letter("a", 2, state="REDRIVEN", redriven_by="me@here")
    here.letter("b", 0, error_code="llm.http.503")


async def test_an_empty_span_of_time_is_refused(here: Deployment) -> None:
    with pytest.raises(UsageError, match="is not a span"):
        await select(here.runtime(Settings()), Filter(since=""))


def listed(run: Run, *options: str) -> set[tuple[str, int]]:
    done = run("dlq", "list", "-o", "json", *options)
    return {(letter["job"], letter["chunk"]) for letter in json.loads(done.stdout)}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], {("a", 0), ("a", 1), ("b", 0)}),
        (["--all"], {("a", 0), ("a", 1), ("a", 2), ("b", 0)}),
        (["--job", "b"], {("b", 0)}),
        (["--code", "llm.http.500"], {("a", 0)}),
        (["--code", "llm.*"], {("a", 0), ("b", 0)}),
        (["--stage", "publish"], {("a", 1)}),
        (["--since", "10m"], {("a", 1), ("b", 0)}),
        (["--since", "10m", "--stage", "nowhere"], set()),
        (["--fingerprint", BAD_LINE], {("b", 0)}),
        (["--fingerprint", "0" * 12], set()),
    ],
)
def test_letters_are_filtered(
    run: Run, options: list[str], expected: set[tuple[str, int]]
) -> None:
    assert expected == listed(run, *options)


def test_a_discard_with_a_limit_takes_what_a_list_with_it_shows(run: Run) -> None:
    done = run("dlq", "discard", "-n", "2", "--dry-run", "-o", "json")
    taken = {(letter["job"], letter["chunk"]) for letter in json.loads(done.stdout)}
    assert listed(run, "-n", "2") == taken == {("a", 1), ("b", 0)}


def test_a_list_names_the_command_that_shows_the_first_letter(run: Run) -> None:
    assert "next: piecework dlq show " in run("dlq", "list").stderr


def test_a_letter_is_shown_with_its_error_history_payload_and_next_step(
    run: Run,
) -> None:
    found = json.loads(run("dlq", "show", "a", "1", "-o", "json").stdout)
    assert {"text": "line 1"} == found["payload"]
    assert ["w1"] == [attempt["worker"] for attempt in found["error_history"]]
    shown = run("dlq", "show", "a", "1").stdout
    assert "text: line 1" in shown
    assert "piecework dlq redrive --job a --chunk 1 --reason" in shown


def test_a_letter_says_why_the_effects_of_each_stage_remain(here: Deployment) -> None:
    failed = {"stage": "pay", "code": "tool.http.500", "message": "It is closed."}
    here.letter(
        "a",
        1,
        compensation="FAILED",
        uncompensated_stages=["mail", "pay"],
        compensation_errors=[failed],
    )
    shown = here.run("dlq", "show", "a", "1").stdout
    assert "pay: tool.http.500: It is closed." in shown
    assert "mail: it has no compensation" in shown
    assert "pay: it has no" not in shown


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"compensation": "FAILED", "code_version": "v2"}, "in code version v2"),
        # The stage may have one: the chunk died before it had ended.
        ({"compensation": "ABANDONED"}, "nothing has compensated it to the end"),
    ],
)
def test_a_letter_says_only_of_its_own_version_that_a_compensation_is_missing(
    here: Deployment, facts: dict[str, str], why: str
) -> None:
    here.letter("a", 1, uncompensated_stages=["pay"], **facts)
    shown = " ".join(here.run("dlq", "show", "a", "1").stdout.split())
    assert why in shown
    assert ("it has no compensation" in shown) == ("code_version" in facts)


def test_a_letter_is_shown_even_without_its_payload(here: Deployment) -> None:
    here.bucket.stored.clear()
    done = here.run("dlq", "show", "a", "1")
    assert done.exit_code == 0
    assert "payload: runtime.object.missing" in done.stdout


def test_a_dry_run_shows_the_rows_and_changes_nothing(here: Deployment) -> None:
    done = here.run("dlq", "redrive", "--dry-run")
    assert (0, 4) == (done.exit_code, len(done.stdout.splitlines()))
    assert "3 dead letters of 2 jobs would be redriven" in done.stderr
    assert [] == here.redriven


#: What a warning of effects names: the command that helps, or why none does.
DOUBT, AGAIN, NONE = "effects resolve", "dlq compensate", "without a compensation"
IN_DOUBT = {"error_code": EFFECT_IN_DOUBT}
STAGES = {"compensation": "FAILED", "uncompensated_stages": ["shout"]}
ERRORS = {"compensation_errors": [{"stage": "shout"}]}


@pytest.mark.parametrize(
    ("left", "warned"),
    [
        ([{}, {"compensation": "DONE"}], {}),
        ([IN_DOUBT, {}], {DOUBT: 2}),
        ([STAGES | ERRORS, {"compensation": "FAILED"}], {AGAIN: 2}),
        ([STAGES], {NONE: 1}),
        # A resolution, not a compensation, decides about an effect in doubt.
        ([IN_DOUBT | STAGES, STAGES], {DOUBT: 2, NONE: 1}),
        ([IN_DOUBT | STAGES | ERRORS, STAGES, {}], {DOUBT: 2, AGAIN: 1, NONE: 1}),
    ],
)
def test_a_redrive_warns_of_the_effects_that_its_dead_letters_left(
    here: Deployment, left: list[dict[str, Any]], warned: dict[str, int]
) -> None:
    here.job("c", "PARTIAL", 3)
    work = work_prefix(0)
    for state in ("UNKNOWN", "INTENT", "DONE"):
        row = {"effect_key": f"key-{state}", "state": state, "started_at": SETTLED}
        here.table.add("T#default#J#c", f"{work}EFFECT#{state}", **row)
    for number, letter in enumerate(left):
        here.letter("c", number, **letter)
    done = here.run("dlq", "redrive", "--job", "c", "--dry-run")
    found = {
        name: int(line.split()[0])
        for line in done.stderr.splitlines()
        for name in (DOUBT, AGAIN, NONE)
        if name in line
    }
    assert (done.exit_code, found) == (0, warned)


def test_a_redrive_goes_job_by_job_with_actor_and_reason(here: Deployment) -> None:
    done = here.run("dlq", "redrive", "--reason", "fixed it", "--yes", "-o", "json")
    requests = {
        one.ref.job: {row.chunk for row in one.letters} for one in here.redriven
    }
    assert {"a": {0, 1}, "b": {0}} == requests
    assert {"fixed it"} == {one.reason for one in here.redriven}
    assert all("@" in one.actor for one in here.redriven)
    counts = {row["job"]: row["redriven"] for row in json.loads(done.stdout)}
    assert {"a": 2, "b": 1} == counts


@pytest.mark.parametrize(
    "case",
    [
        ("a", UsageError("", code="job.state.not_finished"), (5, 2), "a is skipped"),
        ("a", NotFoundError("", code="job.record.not_found"), (5, 3), "a is skipped"),
        ("b", StoreError("gone"), (6, 6), "job a is redriven, dead letters: 2"),
    ],
)
def test_a_redrive_says_which_jobs_it_skipped_or_had_redriven_before_an_outage(
    run: Run, monkeypatch: pytest.MonkeyPatch, case: tuple[Any, ...]
) -> None:
    job, error, exit_codes, words = case

    async def redrive(_: object, one: RedriveRequest) -> tuple[int, int]:
        if one.ref.job == job:
            raise error
        return len(one.letters), 2

    monkeypatch.setattr(closing, "redrive", redrive)
    done = run("dlq", "redrive", "--reason", "x", "--yes", "-o", "json", "-q")
    alone = run("dlq", "redrive", "--job", job, "--reason", "x", "--yes")
    assert exit_codes == (done.exit_code, alone.exit_code)
    assert words in done.stderr
    assert error.code in done.stderr


def test_the_exit_code_is_an_error_if_no_job_can_be_redriven(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def redrive(_: object, one: RedriveRequest) -> tuple[int, int]:
        message = f"Job {one.ref.job} is RUNNING."
        raise UsageError(message, code="job.state.not_finished")

    monkeypatch.setattr(closing, "redrive", redrive)
    done = run("dlq", "redrive", "--reason", "x", "--yes")
    assert (2, "") == (done.exit_code, done.stdout)
    assert "is skipped" in done.stderr
    assert "error job.state.not_finished" in done.stderr


@pytest.mark.parametrize("act", ["redrive", "compensate"])
def test_a_dry_run_ends_as_the_command_does_if_jobs_cannot_be_reopened_now(
    here: Deployment, act: str
) -> None:
    here.letter("a", 0, compensation="FAILED")
    here.letter("b", 0, compensation="FAILED")
    here.job("a", "RUNNING", 3)
    done = here.run("dlq", act, "--dry-run")
    assert 5 == done.exit_code
    assert "job a is skipped: job.state.not_finished" in done.stderr
    assert " of 1 job would be " in done.stderr
    assert not any(line.startswith("a ") for line in done.stdout.splitlines())
    alone = here.run("dlq", act, "--job", "a", "--dry-run")
    assert (2, "") == (alone.exit_code, alone.stdout)
    assert "error job.state.not_finished" in alone.stderr
    assert "would be" not in alone.stderr


PAID = {"gen": 1, "fence": 1, "stage_number": 1, "finished_at": SETTLED}


def test_a_dry_run_leaves_out_a_job_with_a_chunk_that_would_act_twice(
    here: Deployment,
) -> None:
    for job, state in (("a", "DONE"), ("b", "")):
        here.chunk(job, 0, "DEAD", stages={"pay": PAID})
        here.letter(job, 0)
        pk, work = f"T#default#J#{job}", work_prefix(0)
        if state:
            row = {"effect_key": "k", "state": state, "stage": "pay", "called": "x:y"}
            row |= {"effect": "NON_IDEMPOTENT", "dependency": "bank"}
            here.table.add(pk, f"{work}EFFECT#k", started_at=SETTLED, **row)
    again = ("dlq", "redrive", "--from", "pay", "--dry-run")
    done = here.run(*again)
    assert 5 == done.exit_code
    assert "job a is skipped: redrive.effect.repeated" in " ".join(done.stderr.split())
    assert " of 1 job would be redriven" in done.stderr
    alone = here.run(*again, "--job", "a")
    assert (2, True) == (alone.exit_code, "would be redriven" not in alone.stderr)
    assert "error redrive.effect.repeated" in alone.stderr


def test_a_cause_whose_letters_are_closed_names_no_redrive(run: Run) -> None:
    found = run("dlq", "stats", "--all", "--job", "a", "-o", "json")
    steps = {row["sample"]["chunk"]: row["next"] for row in json.loads(found.stdout)}
    assert "piecework dlq show a 2" == steps[2]
    assert "--canary 1" in steps[1]


def test_a_compensation_that_never_began_is_left_out_of_the_others(
    here: Deployment,
) -> None:
    here.letter("a", 0, compensation="ABANDONED")
    here.letter("a", 1, compensation="FAILED")
    for words in (["--dry-run", "-o", "json"], ["--reason", "x", "--yes"]):
        done = here.run("dlq", "compensate", *words)
        assert 0 == done.exit_code
        assert "left out: The compensation of chunk" in done.stderr
        by_hand = "dlq compensate --job a --chunk 0 --outcome compensated"
        assert by_hand in done.stderr
    assert [[1]] == [[letter.chunk for letter in one.letters] for one in here.redriven]
    alone = ("--chunk", "0", "--reason", "x", "--yes")
    refused = here.run("dlq", "compensate", "--job", "a", *alone)
    assert (2, 1) == (refused.exit_code, len(here.redriven))
    assert "error redrive.compensation.unknown" in refused.stderr
    here.letter("a", 0, compensation="ABANDONED", error_history=1)
    here.letter("a", 1)
    damaged = here.run("dlq", "compensate", *alone[2:])
    assert "left out, because they cannot be read" in damaged.stderr
