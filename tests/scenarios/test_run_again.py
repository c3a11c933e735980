"""An operator runs a chunk again from a completed stage, and no act happens twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from piecework import Pipeline
from piecework.client import Client, RunAgain
from piecework.domain.states import JobStatus
from piecework.errors import UsageError
from tests.scenarios.command_line import piecework
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, faxing_late, selling, selling_past_pivot

WHY = ("--reason", "a correct price", "--yes")
REDRIVE = ("dlq", "redrive", "--job", "job-1")


async def dead(
    scenario: Scenario, pipeline: Pipeline = selling, items: int = 1
) -> None:
    """Let chunks die after their charge, in the last stage."""
    await scenario.submit(pipeline, [Item(n=n + 4) for n in range(items)])
    async with scenario.worker():
        await scenario.ended()
    assert scenario.happened("charged") == items
    scenario.fix()


async def results(scenario: Scenario) -> list[Any]:
    """Run what was reopened to its end; return the results."""
    async with scenario.worker():
        assert JobStatus.SUCCEEDED is (await scenario.ended()).status
    done = await piecework("results", "job-1", "-o", "jsonl")
    return [line["value"] for line in done.lines]


def reprice(scenario: Scenario, more: int) -> None:
    Path(f"{scenario.ledger_path}.price").write_text(str(more))


async def test_a_stage_that_has_acted_runs_again_only_with_the_operators_word(
    scenario: Scenario,
) -> None:
    await dead(scenario)
    shown = await piecework(*REDRIVE, "--from", "price", "--dry-run", "-o", "json")
    kinds = {(kind["stage"], kind["state"]): kind for kind in shown.document["kinds"]}
    assert {("price", "ANSWERED"), ("settle_price", "DONE")} == kinds.keys()
    assert "happens, too" in kinds["settle_price", "DONE"]["again"]
    assert {"redrive.effect.repeated": 1} == shown.document["refused"]
    before = [chunk.item for chunk in await scenario.chunks()]
    refused = await piecework(*REDRIVE, "--from", "price", *WHY)
    assert 2 == refused.exit_code
    assert "error redrive.effect.repeated" in refused.stderr
    assert "settle_price" in refused.stderr
    assert before == [chunk.item for chunk in await scenario.chunks()]
    assert 1 == len([r for r in await scenario.letters() if r["state"] == "OPEN"])

    word = ("--from", "price", "--repeat-effects")
    done = await piecework(*REDRIVE, *word, *WHY)
    assert 0 == done.exit_code, done.stderr
    assert ["shipped for receipt 40"] == await results(scenario)
    # Each stage ran again; equal calls took their answers, and nothing was paid twice.
    assert 2 == scenario.happened("priced")
    assert 2 == scenario.happened("packed")
    assert 1 == scenario.happened("rated")
    assert 1 == scenario.happened("charged")
    events = await piecework("jobs", "events", "job-1", "-o", "json")
    (event,) = [e for e in events.document if e["event"] == "redriven"]
    assert ("price", True) == (
        event["facts"]["from_stage"],
        event["facts"]["repeats"],
    )


async def test_the_word_lets_another_price_be_charged_too(scenario: Scenario) -> None:
    await dead(scenario)
    reprice(scenario, 1)
    done = await piecework(*REDRIVE, "--from", "price", "--repeat-effects", *WHY)
    assert 0 == done.exit_code, done.stderr
    assert ["shipped for receipt 41"] == await results(scenario)
    assert 1 == scenario.happened("rated")
    assert [1, 1] == [scenario.happened("charged", c) for c in ("40", "41")]


async def test_a_stage_without_acts_runs_again_and_the_charge_stays(
    scenario: Scenario,
) -> None:
    await dead(scenario, selling_past_pivot)
    for stage in ("price", "settle_price"):
        word = ("--from", stage, "--repeat-effects")
        refused = await piecework(*REDRIVE, *word, *WHY)
        assert "error redrive.stage.before_pivot" in refused.stderr
    unknown = await piecework(*REDRIVE, "--from", "shp", *WHY)
    assert "error redrive.stage.unknown" in unknown.stderr
    assert "price, settle_price, pack_up, ship" in " ".join(unknown.stderr.split())
    done = await piecework(*REDRIVE, "--from", "pack_up", *WHY)
    assert 0 == done.exit_code, done.stderr
    assert ["shipped for receipt 40"] == await results(scenario)
    assert [1, 2] == [scenario.happened(w) for w in ("charged", "packed")]


async def test_an_edited_value_takes_the_place_of_the_stages_own(
    scenario: Scenario, tmp_path: Path
) -> None:
    await dead(scenario)
    file = tmp_path / "value.json"
    file.write_text('"receipt by hand"')
    of = ("--pipeline", "tests.scenarios.pipelines:selling")
    edited = ("--from", "settle_price", "--value", str(file))
    wrong = ("--from", "price", "--value", str(file), *of)
    refused = await piecework(*REDRIVE, *wrong, "--repeat-effects", *WHY)
    assert "error redrive.value.invalid" in refused.stderr
    # The chunk died in the last stage, which has no value to take the place of.
    before = [chunk.item for chunk in await scenario.chunks()]
    unused = ("--from", "ship", "--value", str(file))
    shown = await piecework(*REDRIVE, *unused, "--dry-run", "-o", "json")
    assert {"redrive.value.unused": 1} == shown.document["refused"]
    refused = await piecework(*REDRIVE, *unused, *WHY)
    assert 2 == refused.exit_code
    assert "error redrive.value.unused" in refused.stderr
    assert before == [chunk.item for chunk in await scenario.chunks()]
    done = await piecework(*REDRIVE, *edited, *of, *WHY)
    assert 0 == done.exit_code, done.stderr
    assert ["shipped for receipt by hand"] == await results(scenario)
    assert [1, 1, 2] == [scenario.happened(w) for w in ("priced", "charged", "packed")]
    (chunk,) = await scenario.chunks()
    assert chunk.stages["settle_price"]["edited_by"]


async def test_an_effect_in_doubt_is_resolved_before_its_stage_runs_again(
    scenario: Scenario,
) -> None:
    await scenario.submit(faxing_late, [Item(n=7)])
    async with scenario.worker():
        await scenario.ended()
    again = ("--from", "pack_up", "--repeat-effects")
    refused = await piecework(*REDRIVE, *again, *WHY)
    assert "error redrive.effect.unresolved" in refused.stderr
    # Where a stage has not completed, the chunk continues anyway.
    shown = await piecework(*REDRIVE, "--from", "send_fax", "--dry-run", "-o", "json")
    assert (0, 1) == (shown.document["again"], shown.document["as_usual"])

    resolve = ("effects", "resolve", "job-1", "--all", "--stage", "send_fax")
    said = ("--outcome", "happened", "--answer", '"sent 7"')
    assert 0 == (await piecework(*resolve, *said, *WHY)).exit_code
    assert 0 == (await piecework(*REDRIVE, *again, *WHY)).exit_code
    assert ["sent 7"] == await results(scenario)
    assert [1, 2] == [scenario.happened(w) for w in ("transmit", "packed")]


async def test_a_job_is_retried_from_a_stage_by_program_and_command(
    scenario: Scenario,
) -> None:
    await dead(scenario, items=3)
    async with Client(runtime=scenario.rt) as client:
        job = client.job("job-1")
        plan = await job.run_again_plan(RunAgain("pack_up"))
        assert (3, 0, {}) == (plan["again"], plan["as_usual"], plan["refused"])
        with pytest.raises(UsageError) as refused:
            await job.retry("again", again=RunAgain("price"))
        assert "redrive.effect.repeated" == refused.value.code
        assert (await scenario.job()).status is JobStatus.FAILED
    shown = await piecework("jobs", "retry", "job-1", "--from", "pack_up", "--dry-run")
    assert "3 chunks would run again from stage pack_up" in shown.stderr
    done = await piecework("jobs", "retry", "job-1", "--from", "pack_up", *WHY)
    assert 0 == done.exit_code, done.stderr
    assert 3 == len(await results(scenario))
    assert [3, 3, 6] == [scenario.happened(w) for w in ("rated", "charged", "packed")]
