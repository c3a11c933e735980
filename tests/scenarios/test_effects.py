"""An operator resolves an effect in doubt, and the chunk continues."""

from __future__ import annotations

import pytest

from piecework.domain.model import JobStatus
from piecework.store.checkpoints import read_work
from tests.scenarios.command_line import piecework
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, faxing

HAPPENED = ("--outcome", "happened")
WHY = ("--reason", "asked the other side", "--yes")


async def effect_in_doubt(scenario: Scenario) -> str:
    """Run a chunk whose effect ends in doubt; return the effect's key."""
    await scenario.submit(faxing, [Item(n=7)])
    async with scenario.worker():
        await scenario.ended()
    (effect,) = (await piecework("effects", "list", "job-1", "-o", "json")).document
    assert ("UNKNOWN", "send_fax") == (effect["state"], effect["stage"])
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
    assert "piecework effects resolve job-1" in " ".join(explained.stdout.split())
    redrive = ("dlq", "redrive", "--job", "job-1", "--dry-run")
    warned = (await piecework(*redrive)).stderr
    assert f"effects resolve job-1 0 {key[:16]} --outcome happened --reason" in warned
    assert "compensat" not in warned
    resolve = ("effects", "resolve", "job-1", "0", key[:12], *HAPPENED, *WHY)
    done = await piecework(*resolve, "--answer", '"sent 7"')
    assert (0, "DONE") == (done.exit_code, "DONE" if "DONE" in done.stdout else "")
    assert "next: piecework dlq redrive --job job-1 --chunk 0" in done.stderr
    assert "in doubt" not in (await piecework(*redrive)).stderr
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
        assert "it: Input should be a valid string" in " ".join(refused.stderr.split())
    assert 0 == (await piecework(*resolve, "--answer", '"sent 8"')).exit_code
    again = await piecework(*resolve, "--answer", '"sent 7"')
    assert "job.effect.not_resolved" in again.stderr
    assert "next: Add --correct" in again.stderr
    corrected = await piecework(*resolve, "--answer", '"sent 7"', "--correct")
    assert 0 == corrected.exit_code
    assert ["sent 7"] == await redriven(scenario)
    late = await piecework(*resolve, "--answer", '"sent 8"', "--correct")
    assert "job.effect.not_resolved" in late.stderr
    events = await piecework("jobs", "events", "job-1", "-o", "json")
    done = [e for e in events.document if e["event"] == "effect resolved"]
    assert 2 == len(done)


async def test_an_effect_resolved_as_not_happened_is_repeated_with_a_fresh_key(
    scenario: Scenario,
) -> None:
    key = await effect_in_doubt(scenario)
    said = ("job-1", "0", key, "--outcome", "did-not-happen")
    assert 0 == (await piecework("effects", "resolve", *said, *WHY)).exit_code
    assert [] == (await piecework("effects", "list", "job-1", "-o", "json")).document
    assert ["sent 7"] == await redriven(scenario)
    sent = {line[2] for line in scenario.ledger if line[0] == "transmit"}
    assert 2 == len(sent)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--yes", "--reason", "x"), "cli.usage.invalid"),
        ((*HAPPENED, "--yes"), "cli.reason.missing"),
        ((*HAPPENED, "--answer", "{", *WHY), "cli.usage.invalid"),
        (("--outcome", "did-not-happen", "--answer", "1", *WHY), "cli.usage.invalid"),
        ((*HAPPENED, "--reason", "x"), "cli.confirmation.needed"),
    ],
)
async def test_an_incomplete_resolution_is_refused(
    scenario: Scenario, words: tuple[str, ...], code: str
) -> None:
    await scenario.submit(faxing, [Item(n=7)])
    done = await piecework("effects", "resolve", "job-1", "0", "abc", *words)
    assert (2, True) == (done.exit_code, f"error {code}" in done.stderr)


async def test_an_effect_that_is_not_in_doubt_cannot_be_resolved(
    scenario: Scenario,
) -> None:
    key = await effect_in_doubt(scenario)
    said = (
        "effects",
        "resolve",
        "job-1",
        "0",
        key,
        "--outcome",
        "did-not-happen",
        *WHY,
    )
    unknown = await piecework(*said[:4], "nothing", *said[5:])
    assert (3, True) == (unknown.exit_code, "job.effect.not_found" in unknown.stderr)
    await piecework(*said)
    twice = await piecework(*said)
    assert (2, True) == (twice.exit_code, "job.effect.not_resolved" in twice.stderr)
    assert "resolved the effect at" in twice.stderr
    ref = (await scenario.job()).ref.chunk(0)
    (row,) = (await read_work(scenario.rt.table, ref)).effects
    assert "REFUSED" == row.state
