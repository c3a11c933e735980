"""A dead letter from its death to its redrive, by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.scenarios.command_line import COUNTING, manifest, piecework
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, counting

REASON = ("--reason", "it is in stock")


async def test_a_dead_letter_is_read_fixed_and_redriven(
    machine: Scenario, tmp_path: Path
) -> None:
    items = [Item(n=0, calls=2), Item(n=1, trouble="permanent"), Item(n=2)]
    source = manifest(tmp_path / "items.jsonl", items)
    await machine.process()
    waited = await piecework("submit", COUNTING, source, "--job-id", "job-1", "--wait")
    assert 5 == waited.exit_code
    assert "1 DEAD" in waited.stdout
    assert "next          piecework dlq list --job job-1" in waited.stdout

    listed = await piecework("dlq", "list", "-o", "json")
    assert [(1, "tool.stock.none")] == [
        (letter["chunk"], letter["error_code"]) for letter in listed.document
    ]
    story = await piecework("dlq", "show", "job-1", "1", "-o", "json")
    assert 1 == story.document["payload"]["n"]
    assert "permanent" == story.document["error_class"]

    await look_before(machine)
    machine.fix()
    done = await piecework("dlq", "redrive", "--job", "job-1", "--yes", *REASON)
    assert 0 == done.exit_code
    watched = await piecework("jobs", "watch", "job-1", "-o", "json")
    assert (0, "SUCCEEDED") == (watched.exit_code, watched.document["status"])
    again = await piecework("dlq", "redrive", "--job", "job-1", "--yes", *REASON)
    assert 2 == again.exit_code
    assert "error redrive.selection.empty" in again.stderr


async def test_an_unexpected_exception_is_shown_with_its_type_and_its_line(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)  # a narrow table folds the place
    await scenario.submit(counting, [Item(n=0, trouble="bug")])
    async with scenario.worker():
        await scenario.ended()

    raised = r"KeyError at tests/scenarios/pipelines\.py:\d+ in trouble"
    for words in (("chunks", "show", "job-1", "0"), ("dlq", "show", "job-1", "0")):
        assert re.search(raised, " ".join((await piecework(*words)).stdout.split()))
    (group,) = (await piecework("dlq", "stats", "-o", "json")).document
    assert re.fullmatch(raised, group["sample"]["raised"])
    (error,) = (await piecework(*words, "-o", "json")).document["error_history"]
    assert re.search(r"KeyError\n.*:\d+ in second\n.* in trouble$", error["traceback"])


async def look_before(scenario: Scenario) -> None:
    """Ask for a redrive in every way that does not do one."""
    before = await scenario.job()
    dry = await piecework("dlq", "redrive", "--job", "job-1", "--dry-run", "-o", "json")
    assert [1] == [letter["chunk"] for letter in dry.document]
    unasked = await piecework("dlq", "redrive", "--job", "job-1", *REASON, stdin="y\n")
    assert 2 == unasked.exit_code
    assert "error cli.confirmation.needed" in unasked.stderr
    assert before == await scenario.job()
