"""An operator resolves an effect in doubt, and the chunk continues."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from piecework import Pipeline
from piecework.domain.keys import compensation_stage
from piecework.domain.states import JobStatus
from piecework_orchestrator.cli.effects import next_command
from tests.scenarios.command_line import piecework
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, faxing, faxing_once

HAPPENED = ("--outcome", "happened")
NOT_HAPPENED = ("--outcome", "did-not-happen")
COMPENSATION = compensation_stage("pay", 1)
WHY = ("--reason", "asked the other side", "--yes")


async def effect_in_doubt(scenario: Scenario, pipeline: Pipeline = faxing) -> str:
    """Run a chunk, or its join, whose effect ends in doubt; return the effect's key."""
    await scenario.submit(pipeline, [Item(n=7)])
    async with scenario.worker():
        await scenario.ended()
    (effect,) = (await piecework("effects", "list", "job-1", "-o", "json")).document
    assert "UNKNOWN" == effect["state"]
    return str(effect["effect_key"])


async def redriven(scenario: Scenario) -> list[object]:
    """Redrive the chunk without its fault; return its result."""
    scenario.fix()
    await scenario.redrive()
    async with scenario.worker():
        ended = await scenario.ended()
    assert JobStatus.SUCCEEDED == ended.status
    done = await piecework("results", "job-1", "-o", "jsonl")
    return [line["value"] for line in done.lines if line["chunk"] == 0]


async def test_an_effect_resolved_as_happened_is_not_repeated(
    scenario: Scenario,
) -> None:
    key = await effect_in_doubt(scenario)
    explained = await piecework("jobs", "explain", "job-1")
    assert "piecework effects list job-1" in " ".join(explained.stdout.split())
    shown = await piecework("dlq", "show", "job-1", "0")
    assert "effects list job-1 --chunk 0; resolve" in " ".join(shown.stdout.split())
    redrive = ("dlq", "redrive", "--job", "job-1", "--dry-run")
    warned = (await piecework(*redrive)).stderr
    assert f"effects resolve job-1 0 {key[:16]} --outcome happened --answer" in warned
    assert "compensat" not in warned
    patch = ("--patch", '{"n": 8}', "--pipeline", "tests.scenarios.pipelines:faxing")
    patched = await piecework(*redrive, *patch)
    assert "error redrive.effect.unresolved" in patched.stderr
    resolve = ("effects", "resolve", "job-1", "0", key[:12], *HAPPENED, *WHY)
    done = await piecework(*resolve, "--answer", '"sent 7"')
    assert (0, "DONE") == (done.exit_code, "DONE" if "DONE" in done.stdout else "")
    assert "next: piecework dlq redrive --job job-1 --chunk 0" in done.stderr
    assert "in doubt" not in (await piecework(*redrive)).stderr
    for words in (("jobs", "explain", "job-1"), ("dlq", "show", "job-1", "0")):
        said = " ".join((await piecework(*words)).stdout.split())
        assert "piecework dlq redrive --job job-1" in said
        assert "effects list" not in said
    assert ["sent 7"] == await redriven(scenario)
    assert 1 == scenario.happened("transmit")
    events = await piecework("jobs", "events", "job-1", "-o", "json")
    (resolved,) = [e for e in events.document if e["event"] == "effect resolved"]
    assert "asked the other side" == resolved["facts"]["reason"]


async def test_a_wrong_resolution_is_refused_or_corrected_until_its_stage_is_complete(
    scenario: Scenario,
) -> None:
    key = await effect_in_doubt(scenario)
    resolve = ("effects", "resolve", "job-1", "0", key, *WHY, *HAPPENED)
    for wrong in ("7", "null"):
        refused = await piecework(*resolve, "--answer", wrong)
        assert 2 == refused.exit_code
        assert "error job.effect.answer_invalid" in refused.stderr
        assert "answer: Input should be a valid string" in " ".join(
            refused.stderr.split()
        )
    assert 0 == (await piecework(*resolve, "--answer", '"sent 8"')).exit_code
    again = await piecework(*resolve, "--answer", '"sent 7"')
    assert "job.effect.not_resolved" in again.stderr
    assert "resolved the effect at" in again.stderr
    assert "next: Add --correct" in again.stderr
    corrected = await piecework(*resolve, "--answer", '"sent 7"', "--correct")
    assert 0 == corrected.exit_code
    assert ["sent 7"] == await redriven(scenario)
    late = await piecework(*resolve, "--answer", '"sent 8"', "--correct")
    assert "at stage 'send_fax'; job-1/0 is SUCCEEDED" in " ".join(late.stderr.split())
    assert "job.effect.not_resolved" in late.stderr
    events = await piecework("jobs", "events", "job-1", "-o", "json")
    done = [e for e in events.document if e["event"] == "effect resolved"]
    assert 2 == len(done)


@pytest.mark.parametrize(
    ("pipeline", "chunk", "result"),
    [(faxing, "0", "sent 7"), (faxing_once, "join", 7)],
)
async def test_an_effect_resolved_as_not_happened_is_repeated_with_a_fresh_key(
    scenario: Scenario, pipeline: Pipeline, chunk: str, result: object
) -> None:
    key = await effect_in_doubt(scenario, pipeline)
    said = ("job-1", chunk, key, *NOT_HAPPENED)
    assert 0 == (await piecework("effects", "resolve", *said, *WHY)).exit_code
    assert [] == (await piecework("effects", "list", "job-1", "-o", "json")).document
    assert [result] == await redriven(scenario)
    sent = {line[2] for line in scenario.ledger if line[0] == "transmit"}
    assert 2 == len(sent)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--yes", "--reason", "x"), "cli.usage.invalid"),
        ((*HAPPENED, *WHY), "cli.usage.invalid"),
        ((*HAPPENED, "--answer", "null", "--yes"), "cli.reason.missing"),
        ((*HAPPENED, "--answer", "{", *WHY), "cli.usage.invalid"),
        ((*NOT_HAPPENED, "--answer", "1", *WHY), "cli.usage.invalid"),
        ((*NOT_HAPPENED, "--reason", "x"), "cli.confirmation.needed"),
        (("--all", *NOT_HAPPENED, *WHY), "cli.usage.invalid"),
        (("--stage", "send_fax", *NOT_HAPPENED, *WHY), "cli.usage.invalid"),
    ],
)
async def test_an_incomplete_resolution_is_refused(
    scenario: Scenario, words: tuple[str, ...], code: str
) -> None:
    await scenario.submit(faxing, [Item(n=7)])
    done = await piecework("effects", "resolve", "job-1", "0", "abc", *words)
    assert (2, True) == (done.exit_code, f"error {code}" in done.stderr)


@pytest.mark.parametrize("words", [("--all", "--stage", "send_fax"), ("--file",)])
async def test_many_effects_are_resolved_by_one_command(
    scenario: Scenario, tmp_path: Path, words: tuple[str, ...]
) -> None:
    await scenario.submit(faxing, [Item(n=7), Item(n=8)])
    async with scenario.worker():
        await scenario.ended()
    listed = (await piecework("effects", "list", "job-1", "-o", "json")).document
    assert [0, 1] == [row["chunk"] for row in listed]
    if words == ("--file",):
        named = [dict(row) for row in listed]  # as they were listed
        named[0] |= {"outcome": "happened", "answer": "sent 7"}
        named[1] |= {"outcome": "did-not-happen"}
        lines = [*map(json.dumps, named), '{"chunk": 1, "effect_key": "0"}']
        file = tmp_path / "found.jsonl"
        file.write_text("\n")
        resolve = ("effects", "resolve", "job-1", *words, str(file), *WHY)
        empty = await piecework(*resolve)
        assert (2, True) == (empty.exit_code, "has no line" in empty.stderr)
        file.write_text("\n".join(lines))
        refused = await piecework(*resolve)
        assert (2, True) == (refused.exit_code, "Line 3 of" in refused.stderr)
        again = {**named[0], "effect_key": named[0]["effect_key"][:9]}
        lines[2] = json.dumps(again | {"answer": "sent 8"})
        file.write_text("\n".join(lines))
        twice = " ".join((await piecework(*resolve)).stderr.split())
        assert "Lines 1 and 3 of" in twice
        assert "name the same effect" in twice
        lines[2] = '{"chunk": 1, "effect_key": "zz", "outcome": "did-not-happen"}'
        file.write_text("\n".join(lines), "utf-8-sig")
        done = await piecework(*resolve)
        said = " ".join(done.stderr.split())
        assert "1 of 3 effects was not resolved" in said
        assert "next: WHY names the cause" in said
        assert "Line 3:" in " ".join(done.stdout.split())
        states = ["DONE", "REFUSED"]
    else:
        none = await piecework(
            *("effects", "resolve", "job-1", "--all", "--stage", "other"),
            *(*NOT_HAPPENED, *WHY),
        )
        said = " ".join(none.stderr.split())
        assert (3, True) == (none.exit_code, "error job.effect.not_found" in said)
        assert "No effect in doubt matches; they are of send_fax (fax)." in said
        done = await piecework(
            "effects", "resolve", "job-1", *words, *NOT_HAPPENED, *WHY, "-o", "json"
        )
        assert 0 == done.exit_code
        states = ["REFUSED", "REFUSED"]
    shown = [
        (await piecework("chunks", "show", "job-1", n, "-o", "json")).document
        for n in "01"
    ]
    assert states == [chunk["effects"][0]["state"] for chunk in shown]
    assert [] == (await piecework("effects", "list", "job-1", "-o", "json")).document


async def test_all_effects_are_resolved_but_none_is_corrected(
    scenario: Scenario,
) -> None:
    await scenario.submit(faxing, [Item(n=7)])
    words = ("effects", "resolve", "job-1", "--all", "--correct", *NOT_HAPPENED, *WHY)
    done = await piecework(*words)
    assert 2 == done.exit_code
    assert "--correct replaces the resolution of one effect" in done.stderr


async def test_a_stopping_worker_leaves_an_effect_to_the_next_one(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIECEWORK_SHUTDOWN_GRACE_S", "4.5")  # the fax may take 5 s
    await scenario.submit(faxing, [Item(n=7, seconds=2.0)])
    stopped = await scenario.process("--no-reconcile")
    await scenario.until(lambda: scenario.happened("write"))
    assert 0 == await stopped.stop()

    scenario.fix()
    async with scenario.worker("next"):
        assert JobStatus.SUCCEEDED is (await scenario.ended()).status
    assert (2, 1) == (scenario.happened("write"), scenario.happened("transmit"))


async def test_a_key_without_an_effect_in_doubt_is_refused(scenario: Scenario) -> None:
    await effect_in_doubt(scenario)
    said = ("effects", "resolve", "job-1", "0", "nothing", *NOT_HAPPENED, *WHY)
    unknown = await piecework(*said)
    assert (3, True) == (unknown.exit_code, "job.effect.not_found" in unknown.stderr)


@pytest.mark.parametrize(
    ("status", "stage", "chunk", "next_one"),
    [
        ("DEAD", "join", "join", "dlq redrive --job july"),
        ("DEAD", "pay", "17", "dlq redrive --job july --chunk 17"),
        ("DEAD", COMPENSATION, "17", "dlq compensate --job july --chunk 17"),
        ("CANCELLED", "pay", "17", "jobs retry july"),
    ],
)
def test_the_next_command_uses_the_resolution(
    status: str, stage: str, chunk: str, next_one: str
) -> None:
    resolved = {"job": "july", "status": status, "stage": stage}
    assert f"piecework {next_one} --reason WHY" == next_command(resolved, chunk)
