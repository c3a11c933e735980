"""What becomes of dead letters: patched, tried out in waves, given up, traced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.moments import moment
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.errors import UsageError
from piecework_orchestrator.dead_letters.redrive import Edit, RedriveRequest, redrive
from piecework_orchestrator.operate.retry import RetryRequest, retry
from tests.scenarios.command_line import COUNTING, piecework
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, counting

REF = JobRef("default", "job-1")
WHY = ("--reason", "it is in stock", "--yes")
BAD = Item(n=1, trouble="permanent")


async def open_dead_letters(scenario: Scenario) -> dict[object, object]:
    """Return the generation of the open letter of each chunk, which is one."""
    rows = [r for r in await scenario.letters() if r["state"] == "OPEN"]
    found = {row["chunk"]: row["gen"] for row in rows}
    assert len(found) == len(rows)
    marks = scenario.rt.dead_letters.query(keys.open_letters_pk("default"))
    assert found == {mark["chunk"]: mark["gen"] async for mark in marks}
    return found


async def certificate(scenario: Scenario) -> Any:
    key = str((await scenario.job()).item["certificate"])
    return json.loads(await scenario.rt.objects.get(key))


async def test_a_patched_chunk_runs_with_its_new_payload_and_says_so(
    scenario: Scenario,
) -> None:
    await scenario.submit(counting, [Item(n=0, calls=1), BAD])
    async with scenario.worker():
        await scenario.ended()
        before = (await scenario.chunks())[1].item
        patch = ("--patch", '{"trouble": "", "calls": 2}', "--pipeline", COUNTING)
        done = await piecework("dlq", "redrive", "--job", "job-1", *patch, *WHY)
        assert 0 == done.exit_code
        ended = await scenario.ended()

    assert JobStatus.SUCCEEDED is ended.status
    after = (await scenario.chunks())[1].item
    (letter,) = await scenario.letters()
    assert "calls, trouble" == letter["patch"]
    assert (before["payload"], before["payload_sha256"]) == (
        letter["payload"],
        letter["payload_sha256"],
    )
    assert (after["payload"], after["payload_sha256"]) == (
        letter["patched_payload"],
        letter["patched_payload_sha256"],
    )
    assert {"1": after["payload_sha256"]} == (await certificate(scenario))["patched"]
    assert 2 == scenario.happened("call", "1000") + scenario.happened("call", "1001")
    shown = await piecework("chunks", "show", "job-1", "1")
    assert "patched_in_gen" in shown.stdout
    story = await piecework("dlq", "show", "job-1", "1")
    assert "calls, trouble" in story.stdout
    assert "now SUCCEEDED in generation 2" in " ".join(story.stdout.split())


async def test_letters_name_their_owner_and_what_to_do(scenario: Scenario) -> None:
    await scenario.submit(counting, [BAD, BAD])
    async with scenario.worker():
        await scenario.ended()
    listed = await piecework("dlq", "list", "-o", "json")
    assert ["https://runbooks.example/counting"] * 2 == [
        letter["runbook"] for letter in listed.document
    ]
    (group,) = (await piecework("dlq", "stats", "-o", "json")).document
    assert (2, "the scenarios") == (group["count"], group["owner"])
    same = ("--fingerprint", group["fingerprint"])
    assert 2 == len((await piecework("dlq", "export", *same)).lines)
    shown = (await piecework("dlq", "show", "job-1", "0")).stdout
    assert "https://runbooks.example/counting" in shown


async def test_a_payload_is_replaced_whole_from_a_file(
    scenario: Scenario, tmp_path: Path
) -> None:
    file = tmp_path / "new.json"
    file.write_text('{"n": 7}')
    await scenario.submit(counting, [BAD])
    async with scenario.worker():
        await scenario.ended()
        one = ("dlq", "redrive", "--job", "job-1", "--chunk", "0")
        done = await piecework(*one, "--edit", str(file), *WHY)
        assert 0 == done.exit_code
        assert JobStatus.SUCCEEDED is (await scenario.ended()).status
    (letter,) = await scenario.letters()
    assert "n" in str(letter["patch"]).split(", ")


async def test_a_canary_stops_by_itself_when_the_cause_comes_back(
    machine: Scenario,
) -> None:
    await machine.submit(counting, [Item(n=9), *[BAD] * 4])
    canary = ("dlq", "redrive", "--job", "job-1", "--canary", "1", *WHY)
    async with machine.worker():
        await machine.ended()
        stopped = await piecework(*canary, "--timeout", "30s", "-o", "json")
        assert 5 == stopped.exit_code
        found = stopped.document
        assert ("cause recurred", 3) == (found["verdict"], found["remaining"])
        assert ["tool.stock.none"] == [c["error_code"] for c in found["recurred"]]
        assert [1, 1, 1, 2] == sorted((await open_dead_letters(machine)).values())

        machine.fix()
        through = await piecework(*canary, "-o", "json")

    assert (0, "continue") == (through.exit_code, through.document["verdict"])
    assert [1, 2, 1] == [wave["succeeded"] for wave in through.document["waves"]]
    assert JobStatus.SUCCEEDED is (await machine.job()).status
    assert {} == await open_dead_letters(machine)


async def test_a_canary_waits_no_longer_than_it_may(scenario: Scenario) -> None:
    await scenario.submit(counting, [BAD, BAD])
    async with scenario.worker():
        await scenario.ended()
    canary = ("dlq", "redrive", "--job", "job-1", "--canary", "1", *WHY)
    done = await piecework(*canary, "--timeout", "1s")
    assert 7 == done.exit_code
    assert "error cli.wait.timeout" in done.stderr
    assert "Dead letters not redriven: 1." in done.stderr
    assert [1] == list((await open_dead_letters(scenario)).values())


async def test_what_was_discarded_is_neither_redriven_nor_resumed(
    scenario: Scenario,
) -> None:
    await scenario.submit(counting, [Item(n=0), BAD, BAD])
    async with scenario.worker():
        await scenario.ended()
        one = ("--job", "job-1", "--chunk", "1", "--reason", "a blank page", "--yes")
        assert 0 == (await piecework("dlq", "discard", *one)).exit_code
        assert {2: 1} == await open_dead_letters(scenario)
        assert 2 == (await piecework("dlq", "redrive", *one)).exit_code
        shown = await piecework("jobs", "show", "job-1", "-o", "json")
        assert 1 == shown.document["dead_letters"]

        scenario.fix()
        assert (1, 2) == await retry(scenario.rt, RetryRequest(REF, "me", "go on"))
        ended = await scenario.ended()

    assert JobStatus.PARTIAL is ended.status
    assert ["SUCCEEDED", "DEAD", "SUCCEEDED"] == [
        chunk.status for chunk in await scenario.chunks()
    ]
    assert {} == await open_dead_letters(scenario)
    events = [event.event for event in await scenario.rt.jobs.events(REF)]
    assert "discarded" in events


async def test_a_late_redrive_reopens_no_discarded_chunk(
    scenario: Scenario,
) -> None:
    await scenario.submit(counting, [Item(n=0), BAD])
    async with scenario.worker():
        await scenario.ended()
        seen = await scenario.letter_rows()
        await piecework("dlq", "discard", "--reason", "a blank page", "--yes")
        with pytest.raises(UsageError) as refused:
            await redrive(scenario.rt, RedriveRequest(REF, seen, "me", "late"))
        assert "redrive.selection.empty" == refused.value.code
        with pytest.raises(UsageError) as refused:
            await retry(scenario.rt, RetryRequest(REF, "me", "late"))
        assert "job.retry.nothing_left" == refused.value.code
    job = await scenario.job()
    assert (JobStatus.PARTIAL, 1) == (job.status, job.gen)
    assert ["DISCARDED"] == [row["state"] for row in await scenario.letters()]


async def test_a_redriven_chunk_names_its_first_dead_letter(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    await scenario.submit(counting, [BAD])
    async with scenario.worker():
        await scenario.ended()
        for gen in (2, 3):
            assert (1, gen) == await scenario.redrive()
            await scenario.ended()
            assert {0: gen} == await open_dead_letters(scenario)
    told = await piecework("dlq", "show", "job-1", "0", "-o", "json")
    chain = told.document["lineage"]
    assert [(1, None, 2), (2, 1, 3), (3, 2, None)] == [
        (row["gen"], row["replay_of"], row.get("redriven_gen")) for row in chain
    ]
    assert ["tester", "tester"] == [row["by"] for row in chain[:2]]
    assert 1 == told.document["origin_gen"]
    assert 1 == len({row["fingerprint"] for row in chain})
    shown = (await piecework("dlq", "show", "job-1", "0", "-v")).stdout
    assert "died in generation 1" in shown
    assert "REDRIVEN by tester as generation 3" in shown


async def test_a_retry_closes_the_dead_letters_of_the_chunks_that_it_reopens(
    scenario: Scenario,
) -> None:
    await scenario.submit(counting, [Item(n=0), BAD])
    async with scenario.worker():
        await scenario.ended()
        assert (1, 2) == await retry(scenario.rt, RetryRequest(REF, "me", "again"))
        await scenario.ended()
        assert {1: 2} == await open_dead_letters(scenario)


async def test_chunks_are_dispatched_at_the_rate_of_their_schedule(
    scenario: Scenario,
) -> None:
    await scenario.submit(counting, [BAD] * 3)
    async with scenario.worker():
        await scenario.ended()
        scenario.fix()
        rows = await scenario.letter_rows()
        asked = RedriveRequest(
            REF, rows, "me", "slowly", rate=1.0, edit=Edit({"calls": 1})
        )
        assert (3, 2) == await redrive(scenario.rt, asked)
        begun = moment(str((await scenario.job()).item["reopened_at"]))
        ended = await scenario.ended()
    assert JobStatus.SUCCEEDED is ended.status
    claimed = [moment(str(c.item["claimed_at"])) for c in await scenario.chunks()]
    assert [True] * 3 == [at >= begun + n for n, at in enumerate(claimed)]


async def test_many_dead_letters_in_a_short_time_raise_an_alarm(
    scenario: Scenario,
) -> None:
    await scenario.submit(counting, [BAD] * 4)
    async with scenario.worker():
        await scenario.ended()
    alarms = scenario.rt.dead_letters
    async with scenario.reconciler():

        async def given() -> bool:
            return await alarms.get(keys.alarms_pk("default"), "arrivals") is not None

        await scenario.until(given)
