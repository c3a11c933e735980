"""Guarantee: a stage and a dead letter get the code of the error."""

from __future__ import annotations

import pytest

from piecework.pipelines import Pipeline
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item
from tests.scenarios.planning import reading, reading_apart

PLANNING = ("--pipelines", "tests.scenarios.planning")

each_place = pytest.mark.parametrize(
    "pipeline", [reading, reading_apart], ids=lambda pipeline: pipeline.name
)


@each_place
async def test_a_stage_reads_the_code_of_a_failed_call_and_plans_around_it(
    machine: Scenario, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIECEWORK_MAX_ATTEMPTS", "1")
    await machine.submit(pipeline, [Item(n=12), Item(n=3), Item(n=1)])
    await machine.process(*PLANNING)
    ended = await machine.ended()

    assert ended.outcomes == {"DEAD": 1, "SUCCEEDED": 2}
    told = [line[1:] for line in machine.ledger if line[0] == "told"]
    assert ["llm.context.overflow", "read", "1", "job-1/0"] in told
    assert 1 == machine.happened("count", "12")
    assert 1 == machine.happened("count", "6")

    (letter,) = await machine.letters()
    assert (letter["chunk"], letter["error_code"]) == (2, "acme.reader.busy")
    assert 2 == machine.happened("count", "1")
