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
from piecework.errors.fingerprint import fingerprint
from piecework.settings import Settings
from piecework_orchestrator.dead_letters import closing
from piecework_orchestrator.dead_letters.canary import (
    CanaryRequest,
    CanaryResult,
    Verdict,
    WaveResult,
)
from piecework_orchestrator.dead_letters.redrive import Edit
from tests.unit.orchestrator.cli.deployment import Deployment

WHY = ("--reason", "fixed", "--yes")
ONE = ("dlq", "redrive", "--job", "a", "--chunk", "1")
MARK = fingerprint("toy.line.bad", "shout", "Line 0 is bad.")
INVALID = "error redrive.payload.invalid"
MISSPELT = "error redrive.field.unknown: a/2: The new payload has 'txt' (did you mean"
UNFIT = f"{INVALID}: a/2: The new payload does not fit Line: ['text']"


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
    by = {"discarded_by": "me@here", "discard_reason": "a blank page"}
    here.letter("a", 0, state="DISCARDED", **by)
    shown = here.run("dlq", "show", "a", "0").stdout
    assert ("DISCARDED" in shown, "by me@here: a blank page" in shown) == (True, True)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("discard --yes", 2, "error cli.reason.missing"),
        ("discard --reason x", 2, "error cli.confirmation.needed"),
        ("discard --code no.such.* WHY", 2, "error redrive.selection.empty"),
        ("discard --dry-run", 0, "3 dead letters of 1 job would be discarded"),
        ("redrive --yes", 2, "error cli.reason.missing"),
        ("redrive --reason x", 2, "error cli.confirmation.needed"),
        ("redrive --code no.such.* WHY", 2, "error redrive.selection.empty"),
        ("redrive --dry-run", 0, "3 dead letters of 1 job would be redriven"),
        ("redrive --patch {} --dry-run", 0, "--patch changes nothing in 3 of 3 payl"),
        ("redrive --patch { WHY", 2, f"{INVALID}: --patch is not valid JSON"),
        ("redrive --patch [1] WHY", 2, f"{INVALID}: --patch is not a JSON object"),
        ('redrive --patch {"n":NaN} WHY', 2, "it holds NaN or Infinity"),
        ('redrive --patch {"txt":1} WHY', 2, MISSPELT),
        ('redrive --patch {"txt":1} --dry-run', 2, MISSPELT),
        ("redrive --patch {} --edit x WHY", 2, "--edit and --patch exclude each other"),
        ("redrive --edit /no/such/file WHY", 2, "cannot be read"),
        ("redrive --pipeline toy WHY", 2, "requires --edit or --patch"),
        ("redrive --timeout 5m WHY", 2, "valid only with --canary"),
        ("redrive --canary 1 --timeout soon WHY", 2, "is not a span of time"),
        # A new payload must fit the pipeline.
        ('redrive --pipeline TOY:toy --patch {"text":7} WHY', 2, UNFIT),
        ('redrive --pipeline TOY:toy --patch {"text":null} WHY', 2, UNFIT),
        (
            "redrive --pipeline TOY:other --patch {} WHY",
            2,
            "to pipeline toy, not other",
        ),
    ],
)
def test_a_dry_run_and_what_is_refused_change_nothing(
    here: Deployment, toy: str, words: str, code: int, said: str
) -> None:
    line = words.replace("TOY", toy).replace("WHY", " ".join(WHY)).split()
    done = here.run("dlq", *line, stdin="y\n")
    assert (code, [], []) == (done.exit_code, here.discarded, here.redriven)
    assert said in " ".join(done.stderr.split())


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


# ── a new payload ────────────────────────────────────────────────────────────


@pytest.fixture
def mended(tmp_path: Path) -> str:
    """Return the name of a file with a new payload."""
    (tmp_path / "new.json").write_text('{"text": "x"}')
    return str(tmp_path / "new.json")


def test_a_dry_run_shows_the_new_payload_of_each_letter_that_changes(
    here: Deployment, toy: str
) -> None:
    mended = {"text": "line 1"}
    for patch, options, new in (
        ({"text": {"of": 3}}, (), [{"text": {"of": 3}}] * 3),
        (mended, ("--pipeline", f"{toy}:toy"), [mended, None, mended]),
    ):
        words = ("--patch", json.dumps(patch), "--dry-run", "-o", "json", *options)
        found = json.loads(here.run("dlq", "redrive", *words).stdout)
        assert [*new] == [letter.get("new_payload") for letter in found]
    assert [] == here.redriven


def test_a_patch_or_the_payload_of_one_letter_is_part_of_the_redrive(
    here: Deployment, mended: str
) -> None:
    done = here.run("dlq", "redrive", "--patch", '{"text": 1}', "--rate", "0.5", *WHY)
    assert 0 == done.exit_code
    assert "completed stages keep their results" in done.stderr
    assert "changes nothing" not in done.stderr
    many = here.run("dlq", "redrive", "--job", "a", "--edit", mended, *WHY)
    assert 2 == many.exit_code
    assert "--edit sets one payload, but 3 dead letters match" in many.stderr
    assert 0 == here.run(*ONE, "--edit", mended, *WHY).exit_code
    patched, edited = here.redriven
    assert (Edit({"text": 1}), 0.5) == (patched.edit, patched.rate)
    assert Edit({"text": "x"}, whole=True) == edited.edit


def test_a_lost_payload_can_be_replaced_but_not_patched(
    here: Deployment, mended: str
) -> None:
    here.bucket.stored.clear()
    patched = here.run(*ONE, "--patch", '{"n": 1}', *WHY)
    assert (1, []) == (patched.exit_code, here.redriven)
    assert "error runtime.object.missing" in patched.stderr
    assert 0 == here.run(*ONE, "--edit", mended, *WHY).exit_code


# ── a new payload ────────────────────────────────────────────────────────────


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
    here: Deployment, mended: str, stored: bytes, kind: str, how: tuple[str, ...]
) -> None:
    here.letter(
        "a", 1, payload=f"p1/0+{len(stored)}", payload_sha256=keys.sha256(stored)
    )
    here.bucket.stored["tenants/default/jobs/a/payload/p1.jsonl"] = stored
    patched = here.run(*ONE, "--patch", '{"qty": 9}', *how)
    assert (2, []) == (patched.exit_code, here.redriven)
    assert "error redrive.payload.invalid" in patched.stderr
    told = " ".join(patched.stderr.split())
    assert f"is {kind}, not a JSON object" in told
    assert "`piecework dlq redrive --job a --chunk 1 --edit FILE`" in told
    assert 0 == here.run(*ONE, "--edit", mended, *how).exit_code


@pytest.mark.parametrize("patch", [("--patch", '{"text": 1}'), ()])
def test_a_new_payload_warns_of_effects_that_were_not_compensated(
    here: Deployment, patch: tuple[str, ...]
) -> None:
    here.letter("a", 0, compensation="PAST_PIVOT")
    done = here.run("dlq", "redrive", *patch, "--dry-run")
    assert bool(patch) is ("warning: 1 of them have effects that were" in done.stderr)


def test_a_join_has_no_payload_to_patch(here: Deployment) -> None:
    here.letter("a", keys.JOIN_CHUNK, error_code="join.it")
    sk = keys.dead_letter_sk(keys.JOIN_CHUNK, 1)
    del here.letters.rows[JobRef("default", "a").pk, sk]["payload"]
    done = here.run("dlq", "redrive", "--code", "join.it", "--patch", "{}", *WHY)
    assert 2 == done.exit_code
    assert "a/join: " in done.stderr
    beside = here.run("dlq", "redrive", "--patch", '{"text": 1}', *WHY)
    assert (0, 4) == (beside.exit_code, len(here.redriven[-1].letters)), beside.stderr


# ── waves ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("verdict", "results", "code", "said"),
    [
        (Verdict.CONTINUE, [(1, 1), (2, 2)], 0, []),
        (Verdict.CANCELLED, [(1, 0, 1)], 4, []),
        (Verdict.NONE_SUCCEEDED, [(1, 0, 0, {"new": 1})], 5, []),
        (Verdict.CONTINUE, [(2, 1, 0, {"new": 1})], 5, []),
        (
            *(Verdict.CAUSE_RECURRED, [(1, 0, 0, {MARK: 1})], 5),
            [
                "wave 1: 1 redriven, 0 succeeded, 1 died again",
                f"cause recurred: toy.line.bad, 1 times (fingerprint {MARK})",
                "stopped (cause recurred); 2 dead letters not redriven",
                f"next: piecework dlq list --fingerprint {MARK}",
            ],
        ),
    ],
)
def test_a_canary_tells_its_waves_and_its_exit_code_follows_from_them(
    here: Deployment,
    monkeypatch: pytest.MonkeyPatch,
    verdict: Verdict,
    results: list[tuple[Any, ...]],
    code: int,
    said: list[str],
) -> None:
    waves = [WaveResult(*facts[:3], Counter(*facts[3:])) for facts in results]
    left = 0 if verdict is Verdict.CONTINUE else 2
    requests: list[CanaryRequest] = []

    async def canary(_: object, one: CanaryRequest, on_wave: Any, __: object) -> Any:
        requests.append(one)
        for wave in waves:
            on_wave(wave)
        return CanaryResult(verdict, waves, left)

    monkeypatch.setattr(closing, "redrive_canary", canary)
    words = ("dlq", "redrive", "--canary", "1", "--timeout", "5m", *WHY)
    told, document = here.run(*words), here.run(*words, "-o", "json")
    assert (code, code) == (told.exit_code, document.exit_code)
    assert [] == [line for line in said if line not in told.stderr]
    asked = requests[0]
    assert (1, 300.0, 3) == (asked.first, asked.timeout_s, len(asked.letters))
    found = json.loads(document.stdout)
    assert (verdict, left) == (found["verdict"], found["remaining"])
    assert [w.succeeded for w in waves] == [w["succeeded"] for w in found["waves"]]
