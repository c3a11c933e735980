"""The options of a redrive and a discard, and what is refused before any change."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from piecework.client import Client, JobHandle
from piecework.domain import keys
from piecework.domain.refs import ChunkRef, JobRef
from piecework.errors import PermanentError
from piecework.settings import Settings
from piecework_orchestrator.dead_letters import closing
from piecework_orchestrator.dead_letters.canary import (
    CanaryRequest,
    CanaryResult,
    Verdict,
    WaveResult,
)
from tests.unit.orchestrator.cli.deployment import Deployment

Run = Callable[..., Any]
WHY = ("--reason", "fixed", "--yes")


@pytest.fixture(autouse=True)
def letters(here: Deployment) -> None:
    here.job("a", "PARTIAL", 3)
    for chunk in range(3):
        here.letter("a", chunk, pipeline="toy", error=f"Line {chunk} is bad.")


# ── a discard ────────────────────────────────────────────────────────────────


def test_a_discard_records_actor_and_reason(here: Deployment) -> None:
    done = here.run("dlq", "discard", "--job", "a", "--chunk", "1", *WHY, "-o", "json")
    assert [{"job": "a", "discarded": 1}] == json.loads(done.stdout)
    ((job, chunks, closing),) = here.discarded
    assert ("a", [1], "fixed") == (job, chunks, closing.reason)
    assert "@" in closing.actor


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["--yes"], 2, "error cli.reason.missing"),
        (["--reason", "x"], 2, "error cli.confirmation.needed"),
        (["--code", "no.such.*", *WHY], 2, "error redrive.selection.empty"),
        (["--dry-run"], 0, "3 dead letters of 1 job would be discarded"),
    ],
)
def test_an_unconfirmed_discard_changes_nothing(
    here: Deployment, words: list[str], code: int, expected: str
) -> None:
    done = here.run("dlq", "discard", *words)
    assert (code, []) == (done.exit_code, here.discarded)
    assert expected in done.stderr


@pytest.mark.parametrize("verb", ["redrive", "discard"])
def test_a_damaged_letter_is_named_and_the_others_are_closed(
    here: Deployment, verb: str
) -> None:
    here.letter("a", 1, error_history=1)
    here.letter("a", 3, error_history=1, state="DISCARDED")
    done = here.run("dlq", verb, *WHY)
    named = "left out, because they cannot be read (runtime.record.unreadable): a/1\n"
    assert (5, True) == (done.exit_code, named in done.stderr)
    closed = [chunks for _, chunks, _ in here.discarded]
    closed += [[letter.chunk for letter in one.letters] for one in here.redriven]
    assert [{0, 2}] == [set(each) for each in closed]
    assert 0 == here.run("dlq", verb, "--job", "a", "--chunk", "0", *WHY).exit_code
    only = here.run("dlq", verb, "--job", "a", "--chunk", "1", *WHY)
    assert (2, True) == (only.exit_code, named[:-1] in only.stderr)
    words = ("--code x*", "--stage x", "--fingerprint 000000", "--since 1s")
    for options in map(str.split, words):
        assert "left out" not in here.run("dlq", verb, *options, *WHY).stderr


@pytest.mark.parametrize("verb", ["discard", "compensate"])
@pytest.mark.parametrize(
    "damage",
    [
        {"state": "open"},
        {"stage": 5},
        {"compensation": 5},
        {"stage": None, "compensation": None, "error_history": None},
    ],
)
def test_a_letter_that_may_match_by_a_damaged_attribute_is_named(
    here: Deployment, damage: dict[str, object], verb: str
) -> None:
    here.letter("a", 1, **{"compensation": "FAILED"} | damage)
    done = here.run("dlq", verb, "--stage", "shout", "--dry-run")
    assert "left out, because they cannot be read" in done.stderr


@pytest.mark.parametrize(
    "act", [JobHandle.redrive, JobHandle.discard, JobHandle.compensate]
)
async def test_a_program_learns_of_a_damaged_letter(
    here: Deployment, act: Callable[..., Any]
) -> None:
    here.letter("a", 0, compensation="FAILED")
    here.letter("a", 1, error_history=1, compensation="FAILED")
    job = Client(runtime=here.runtime(Settings())).job("a")
    with pytest.raises(PermanentError, match="of a/00000001"):
        await act(job, "why")
    assert [] == here.discarded + here.redriven
    unreadable: list[ChunkRef] = []
    assert await act(job, "why", unreadable=unreadable)
    assert ["a/1"] == [str(ref) for ref in unreadable]
    assert 1 == len(here.discarded + here.redriven)


def test_a_discarded_letter_shows_its_actor_and_reason(here: Deployment) -> None:
    here.letter(
        "a",
        0,
        state="DISCARDED",
        discarded_by="me@here",
        discard_reason="a blank page",
    )
    shown = here.run("dlq", "show", "a", "0").stdout
    assert "DISCARDED" in shown
    assert "by me@here: a blank page" in shown


# ── a new payload ────────────────────────────────────────────────────────────


def test_a_dry_run_applies_a_patch_to_every_letter(here: Deployment) -> None:
    patch = ("--patch", '{"text": null, "size": {"of": 3}}')
    done = here.run("dlq", "redrive", *patch, "--dry-run", "-o", "json")
    assert [{"size": {"of": 3}}] * 3 == [
        letter["new_payload"] for letter in json.loads(done.stdout)
    ]
    assert [] == here.redriven


def test_a_patch_is_part_of_the_redrive(here: Deployment) -> None:
    done = here.run("dlq", "redrive", "--patch", '{"n": 1}', "--rate", "0.5", *WHY)
    assert 0 == done.exit_code
    assert "completed stages keep their results" in done.stderr
    (request,) = here.redriven
    assert request.edit is not None
    assert ({"n": 1}, False, 0.5) == (
        request.edit.value,
        request.edit.whole,
        request.rate,
    )


@pytest.mark.parametrize("how", [WHY, ("--dry-run",)])
@pytest.mark.parametrize(
    ("stored", "kind"),
    [
        (b'"sku,qty,broken"', "a text"),
        (b"[1, 2]", "a list"),
        (b"7.5", "a number"),
        (b"true", "a boolean"),
        (b"null", "null"),
    ],
)
def test_a_payload_without_fields_can_be_replaced_but_not_patched(
    here: Deployment, tmp_path: Path, stored: bytes, kind: str, how: tuple[str, ...]
) -> None:
    here.letter(
        "a", 1, payload=f"p1/0+{len(stored)}", payload_sha256=keys.sha256(stored)
    )
    here.bucket.stored["tenants/default/jobs/a/payload/p1.jsonl"] = stored
    one = ("dlq", "redrive", "--job", "a", "--chunk", "1")
    patched = here.run(*one, "--patch", '{"qty": 9}', *how)
    assert (2, []) == (patched.exit_code, here.redriven)
    assert "error redrive.payload.invalid" in patched.stderr
    told = " ".join(patched.stderr.split())
    assert f"is {kind}, not a JSON object" in told
    assert "`piecework dlq redrive --job a --chunk 1 --edit FILE`" in told
    row = tmp_path / "row.json"
    row.write_text('{"sku": "x", "qty": 9}')
    assert 0 == here.run(*one, "--edit", str(row), *how).exit_code


def test_a_patch_that_changes_nothing_says_so(here: Deployment) -> None:
    same = here.run("dlq", "redrive", "--patch", "{}", "--dry-run")
    other = here.run("dlq", "redrive", "--patch", '{"n": 1}', "--dry-run")
    assert "--patch changes nothing in 3 of 3 payloads" in same.stderr
    assert "changes nothing" not in other.stderr
    assert [] == here.redriven


def test_edit_sets_the_payload_of_only_one_letter(
    here: Deployment, tmp_path: Path
) -> None:
    file = tmp_path / "new.json"
    file.write_text('{"text": "mended"}')
    edit = ("--edit", str(file), *WHY)
    many = here.run("dlq", "redrive", "--job", "a", *edit)
    assert (2, []) == (many.exit_code, here.redriven)
    assert "--edit sets one payload, but 3 dead letters match" in many.stderr
    one = here.run("dlq", "redrive", "--job", "a", "--chunk", "1", *edit)
    assert 0 == one.exit_code
    assert here.redriven[0].edit is not None
    assert here.redriven[0].edit.whole


def test_a_lost_payload_can_be_replaced_but_not_patched(
    here: Deployment, tmp_path: Path
) -> None:
    here.bucket.stored.clear()
    file = tmp_path / "new.json"
    file.write_text('{"text": "mended"}')
    one = ("dlq", "redrive", "--job", "a", "--chunk", "1")
    patched = here.run(*one, "--patch", '{"n": 1}', *WHY)
    assert (1, []) == (patched.exit_code, here.redriven)
    assert "error runtime.object.missing" in patched.stderr
    assert 0 == here.run(*one, "--edit", str(file), *WHY).exit_code


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--patch", "{"], "error redrive.payload.invalid: --patch is not valid JSON"),
        (
            ["--patch", "[1]"],
            "error redrive.payload.invalid: --patch is not a JSON object",
        ),
        (["--patch", '{"n": NaN}'], "it holds NaN or Infinity"),
        (["--patch", "{}", "--edit", "x"], "--edit and --patch exclude each other"),
        (["--edit", "/no/such/file"], "cannot be read"),
        (["--pipeline", "toy"], "requires --edit or --patch"),
        (["--timeout", "5m"], "valid only with --canary"),
        (["--canary", "1", "--timeout", "soon"], "is not a span of time"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(
    here: Deployment, words: list[str], expected: str
) -> None:
    done = here.run("dlq", "redrive", *words, *WHY)
    assert (2, []) == (done.exit_code, here.redriven)
    assert expected in done.stderr


@pytest.mark.parametrize(
    ("name", "patch", "expected"),
    [
        ("toy", '{"text": 7}', "does not fit Line: ['text']"),
        ("toy", '{"text": null}', "does not fit Line: ['text']"),
        ("other", "{}", "belongs to pipeline toy, not other"),
    ],
)
def test_a_new_payload_must_fit_the_pipeline(
    here: Deployment, toy: str, name: str, patch: str, expected: str
) -> None:
    words = ("--pipeline", f"{toy}:{name}", "--patch", patch)
    done = here.run("dlq", "redrive", *words, *WHY)
    assert (2, []) == (done.exit_code, here.redriven)
    assert "error redrive.payload.invalid: a/2: " in done.stderr
    assert expected in done.stderr


@pytest.mark.parametrize("patch", [("--patch", '{"n": 1}'), ()])
def test_a_new_payload_warns_of_effects_that_were_not_compensated(
    here: Deployment, patch: tuple[str, ...]
) -> None:
    here.letter("a", 0, compensation="PAST_PIVOT")
    done = here.run("dlq", "redrive", *patch, "--dry-run")
    assert bool(patch) is ("warning: 1 of them have effects that were" in done.stderr)


def test_a_patch_that_changes_nothing_makes_no_new_payload(
    here: Deployment, toy: str
) -> None:
    words = ("--pipeline", f"{toy}:toy", "--patch", '{"text": "line 1"}', "--dry-run")
    done = here.run("dlq", "redrive", *words, "-o", "json")
    assert ["new_payload" in letter for letter in json.loads(done.stdout)] == [
        True,
        False,
        True,
    ]


def test_a_join_has_no_payload_to_patch(here: Deployment) -> None:
    here.letter("a", keys.JOIN_CHUNK, error_code="join.it")
    sk = keys.dead_letter_sk(keys.JOIN_CHUNK, 1)
    del here.letters.rows[JobRef("default", "a").pk, sk]["payload"]
    done = here.run("dlq", "redrive", "--code", "join.it", "--patch", "{}", *WHY)
    assert 2 == done.exit_code
    assert "a/join: " in done.stderr
    beside = here.run("dlq", "redrive", "--patch", '{"n": 1}', *WHY)
    assert (0, 4) == (beside.exit_code, len(here.redriven[-1].letters)), beside.stderr


# ── waves ────────────────────────────────────────────────────────────────────


def fake_canary(
    monkeypatch: pytest.MonkeyPatch,
    verdict: Verdict,
    results: list[WaveResult],
    left: int,
) -> list[CanaryRequest]:
    requests: list[CanaryRequest] = []

    async def canary(
        _: object, one: CanaryRequest, on_wave: Any, __: object
    ) -> CanaryResult:
        requests.append(one)
        for each in results:
            on_wave(each)
        return CanaryResult(verdict, results, left)

    monkeypatch.setattr(closing, "redrive_canary", canary)
    return requests


def test_a_canary_that_succeeds_continues_to_the_end(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = [WaveResult(redriven=1, succeeded=1), WaveResult(redriven=2, succeeded=2)]
    requests = fake_canary(monkeypatch, Verdict.CONTINUE, results, 0)
    done = run("dlq", "redrive", "--canary", "1", "--timeout", "5m", *WHY, "-o", "json")
    assert 0 == done.exit_code
    assert (1, 300.0, 3) == (
        requests[0].first,
        requests[0].timeout_s,
        len(requests[0].letters),
    )
    found = json.loads(done.stdout)
    assert ("continue", 0, []) == (
        found["verdict"],
        found["remaining"],
        found["recurred"],
    )
    assert [1, 2] == [wave["succeeded"] for wave in found["waves"]]


def test_a_cause_that_recurs_is_named_with_the_remaining_count(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = json.loads(run("dlq", "list", "-o", "json").stdout)
    mark = listed[0]["fingerprint"]
    results = [WaveResult(redriven=1, died=Counter({mark: 1}))]
    fake_canary(monkeypatch, Verdict.CAUSE_RECURRED, results, 2)
    done = run("dlq", "redrive", "--canary", "1", *WHY)
    assert 5 == done.exit_code
    assert "wave 1: 1 redriven, 0 succeeded, 1 died again" in done.stderr
    assert f"cause recurred: toy.line.bad, 1 times (fingerprint {mark})" in done.stderr
    assert "stopped (cause recurred); 2 dead letters not redriven" in done.stderr
    assert f"next: piecework dlq list --fingerprint {mark}" in done.stderr


@pytest.mark.parametrize(
    ("verdict", "result", "code"),
    [
        (Verdict.CANCELLED, WaveResult(redriven=1, cancelled=1), 4),
        (Verdict.NONE_SUCCEEDED, WaveResult(redriven=1, died=Counter({"new": 1})), 5),
        (
            Verdict.CONTINUE,
            WaveResult(redriven=2, succeeded=1, died=Counter({"new": 1})),
            5,
        ),
    ],
)
def test_the_exit_code_follows_from_the_waves(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    verdict: Verdict,
    result: WaveResult,
    code: int,
) -> None:
    fake_canary(monkeypatch, verdict, [result], 1)
    assert code == run("dlq", "redrive", "--canary", "1", *WHY).exit_code
