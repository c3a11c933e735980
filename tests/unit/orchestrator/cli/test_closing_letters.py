"""How a redrive or a discard is asked for, and what is refused before anything is."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestrator.canary import Canary, Outcome
from orchestrator.cli import discarding, redriving, waves
from orchestrator.redrive import Redrive
from orchestrator.waves import Came, Verdict
from piecework import keys
from piecework.model import JobRef
from piecework.store.dead_letters import Closing
from tests.unit.orchestrator.cli.deployment import Deployment

Run = Callable[..., Any]
WHY = ("--reason", "fixed", "--yes")


@pytest.fixture(autouse=True)
def letters(deployment: Deployment) -> None:
    deployment.job("a", "PARTIAL", 3)
    for chunk in range(3):
        deployment.letter("a", chunk, pipeline="toy", error=f"Line {chunk} is bad.")


@pytest.fixture
def redriven(monkeypatch: pytest.MonkeyPatch) -> list[Redrive]:
    """Return the redrives that were asked for; none is carried out."""
    asked: list[Redrive] = []

    async def redrive(_: object, one: Redrive) -> tuple[int, int]:
        asked.append(one)
        return len(one.letters), 2

    monkeypatch.setattr(redriving, "redrive", redrive)
    return asked


# ── a discard ────────────────────────────────────────────────────────────────


@pytest.fixture
def discarded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[int], Closing]]:
    """Return the discards that were asked for; none is carried out."""
    asked: list[tuple[str, list[int], Closing]] = []

    async def discard(
        _: object, ref: JobRef, letters: Sequence[Any], by: Closing
    ) -> int:
        asked.append((ref.job, [letter["chunk"] for letter in letters], by))
        return len(letters)

    monkeypatch.setattr(discarding, "discard", discard)
    return asked


def test_a_discard_goes_with_who_and_why(run: Run, discarded: list[Any]) -> None:
    done = run("dlq", "discard", "--job", "a", "--chunk", "1", *WHY, "-o", "json")
    assert [{"job": "a", "discarded": 1}] == json.loads(done.stdout)
    ((job, chunks, by),) = discarded
    assert ("a", [1], "fixed") == (job, chunks, by.reason)
    assert "@" in by.actor


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--yes"], 2, "error redrive.reason.missing"),
        (["--reason", "x"], 2, "error cli.confirmation.needed"),
        (["--code", "no.such.*", *WHY], 2, "error redrive.selection.empty"),
        (["--dry-run"], 0, "3 dead letters of 1 job would be discarded"),
    ],
)
def test_a_discard_that_is_not_meant_changes_nothing(
    run: Run, discarded: list[Any], words: list[str], code: int, said: str
) -> None:
    done = run("dlq", "discard", *words)
    assert (code, []) == (done.exit_code, discarded)
    assert said in done.stderr


def test_a_discarded_letter_says_who_gave_it_up(
    run: Run, deployment: Deployment
) -> None:
    deployment.letter(
        "a",
        0,
        letter_state="DISCARDED",
        discarded_by="me@here",
        discard_reason="a blank page",
    )
    shown = run("dlq", "show", "a", "0").stdout
    assert "DISCARDED" in shown
    assert "by me@here: a blank page" in shown


# ── a new payload ────────────────────────────────────────────────────────────


def test_a_patch_is_tried_on_every_letter_before_anything_is_changed(
    run: Run, redriven: list[Redrive]
) -> None:
    patch = ("--patch", '{"text": null, "size": {"of": 3}}')
    done = run("dlq", "redrive", *patch, "--dry-run", "-o", "json")
    assert [{"size": {"of": 3}}] * 3 == [
        letter["new_payload"] for letter in json.loads(done.stdout)
    ]
    assert [] == redriven


def test_a_patch_goes_with_the_redrive(run: Run, redriven: list[Redrive]) -> None:
    done = run("dlq", "redrive", "--patch", '{"n": 1}', "--rate", "0.5", *WHY)
    assert 0 == done.exit_code
    assert "stages that are done keep their values" in done.stderr
    (asked,) = redriven
    assert asked.edit is not None
    assert ({"n": 1}, False, 0.5) == (asked.edit.value, asked.edit.whole, asked.rate)


def test_a_payload_that_is_typed_whole_is_that_of_one_letter(
    run: Run, redriven: list[Redrive], tmp_path: Path
) -> None:
    file = tmp_path / "new.json"
    file.write_text('{"text": "mended"}')
    edit = ("--edit", str(file), *WHY)
    many = run("dlq", "redrive", "--job", "a", *edit)
    assert (2, []) == (many.exit_code, redriven)
    assert "--edit is one payload, and 3 dead letters fit" in many.stderr
    one = run("dlq", "redrive", "--job", "a", "--chunk", "1", *edit)
    assert 0 == one.exit_code
    assert redriven[0].edit is not None
    assert redriven[0].edit.whole


def test_a_lost_payload_can_be_replaced_but_not_patched(
    run: Run, redriven: list[Redrive], deployment: Deployment, tmp_path: Path
) -> None:
    deployment.bucket.stored.clear()
    file = tmp_path / "new.json"
    file.write_text('{"text": "mended"}')
    one = ("dlq", "redrive", "--job", "a", "--chunk", "1")
    patched = run(*one, "--patch", '{"n": 1}', *WHY)
    assert (1, []) == (patched.exit_code, redriven)
    assert "error runtime.object.missing" in patched.stderr
    assert 0 == run(*one, "--edit", str(file), *WHY).exit_code


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--patch", "{"], "error redrive.payload.invalid: --patch is no JSON"),
        (["--patch", "[1]"], "error redrive.payload.invalid: --patch is no JSON obj"),
        (["--patch", '{"n": NaN}'], "it holds NaN or Infinity"),
        (["--patch", "{}", "--edit", "x"], "--edit replaces a payload"),
        (["--edit", "/no/such/file"], "cannot be read"),
        (["--pipeline", "toy"], "there are none"),
        (["--timeout", "5m"], "there is no --canary"),
        (["--canary", "1", "--timeout", "soon"], "is not a span of time"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    run: Run, redriven: list[Redrive], words: list[str], said: str
) -> None:
    done = run("dlq", "redrive", *words, *WHY)
    assert (2, []) == (done.exit_code, redriven)
    assert said in done.stderr


@pytest.mark.parametrize(
    ("name", "patch", "said"),
    [
        ("toy", '{"text": 7}', "does not fit Line: ['text']"),
        ("toy", '{"text": null}', "does not fit Line: ['text']"),
        ("other", "{}", "Its pipeline is toy, not other"),
    ],
)
def test_a_new_payload_has_to_fit_the_pipeline(
    run: Run, redriven: list[Redrive], toy: str, name: str, patch: str, said: str
) -> None:
    words = ("--pipeline", f"{toy}:{name}", "--patch", patch)
    done = run("dlq", "redrive", *words, *WHY)
    assert (2, []) == (done.exit_code, redriven)
    assert "error redrive.payload.invalid: a/2: " in done.stderr
    assert said in done.stderr


@pytest.mark.parametrize("patch", [("--patch", '{"n": 1}'), ()])
def test_a_new_payload_warns_of_what_was_not_undone(
    run: Run, redriven: list[Redrive], deployment: Deployment, patch: tuple[str, ...]
) -> None:
    deployment.letter("a", 0, compensation="PAST_PIVOT")
    done = run("dlq", "redrive", *patch, "--dry-run")
    assert bool(patch) is ("warning: 1 of them did something that was" in done.stderr)


def test_a_patch_that_changes_nothing_makes_no_new_payload(
    run: Run, redriven: list[Redrive], toy: str
) -> None:
    words = ("--pipeline", f"{toy}:toy", "--patch", '{"text": "line 1"}', "--dry-run")
    done = run("dlq", "redrive", *words, "-o", "json")
    assert ["new_payload" in letter for letter in json.loads(done.stdout)] == [
        True,
        False,
        True,
    ]


def test_a_join_has_no_payload_to_patch(
    run: Run, redriven: list[Redrive], deployment: Deployment
) -> None:
    deployment.letter("a", keys.JOIN_CHUNK, error_code="join.it")
    sk = keys.dead_letter_sk(keys.JOIN_CHUNK, 1)
    del deployment.letters.rows[JobRef("default", "a").pk, sk]["payload"]
    done = run("dlq", "redrive", "--code", "join.it", "--patch", "{}", *WHY)
    assert 2 == done.exit_code
    assert "a/join: " in done.stderr


# ── waves ────────────────────────────────────────────────────────────────────


def in_waves(
    monkeypatch: pytest.MonkeyPatch, verdict: Verdict, came: list[Came], left: int
) -> list[Canary]:
    asked: list[Canary] = []

    async def canary(_: object, one: Canary, told: Any, __: object) -> Outcome:
        asked.append(one)
        for each in came:
            told(each)
        return Outcome(verdict, came, left)

    monkeypatch.setattr(waves, "canary", canary)
    return asked


def test_a_canary_that_comes_through_goes_on_to_the_end(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    came = [Came(redriven=1, succeeded=1), Came(redriven=2, succeeded=2)]
    asked = in_waves(monkeypatch, Verdict.GO_ON, came, 0)
    done = run("dlq", "redrive", "--canary", "1", "--timeout", "5m", *WHY, "-o", "json")
    assert 0 == done.exit_code
    assert (1, 300.0, 3) == (asked[0].first, asked[0].timeout_s, len(asked[0].letters))
    found = json.loads(done.stdout)
    assert ("go on", 0, []) == (
        found["verdict"],
        found["left_alone"],
        found["came_back"],
    )
    assert [1, 2] == [wave["succeeded"] for wave in found["waves"]]


def test_a_cause_that_comes_back_is_named_with_what_was_left_alone(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = json.loads(run("dlq", "list", "-o", "json").stdout)
    mark = listed[0]["fingerprint"]
    came = [Came(redriven=1, died=Counter({mark: 1}))]
    in_waves(monkeypatch, Verdict.CAME_BACK, came, 2)
    done = run("dlq", "redrive", "--canary", "1", *WHY)
    assert 5 == done.exit_code
    assert "wave 1: 1 redriven, 0 succeeded, 1 died again" in done.stderr
    assert f"came back: toy.line.bad, 1 times (fingerprint {mark})" in done.stderr
    assert "stopped (came back); 2 dead letters left alone" in done.stderr
    assert f"next: piecework dlq list --fingerprint {mark}" in done.stderr


@pytest.mark.parametrize(
    ("verdict", "came", "code"),
    [
        (Verdict.CANCELLED, Came(redriven=1, cancelled=1), 4),
        (Verdict.NOTHING_THROUGH, Came(redriven=1, died=Counter({"new": 1})), 5),
        (Verdict.GO_ON, Came(redriven=2, succeeded=1, died=Counter({"new": 1})), 5),
    ],
)
def test_the_exit_code_says_how_the_waves_ended(
    run: Run, monkeypatch: pytest.MonkeyPatch, verdict: Verdict, came: Came, code: int
) -> None:
    in_waves(monkeypatch, verdict, [came], 1)
    assert code == run("dlq", "redrive", "--canary", "1", *WHY).exit_code
