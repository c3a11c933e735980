"""The finish time of jobs that real workers run, in virtual time; `make drill`."""

from __future__ import annotations

import asyncio
from statistics import median

import pytest

from piecework.store.dead_letters import LetterCounts
from piecework_orchestrator.reading.job_documents import Document, explain
from piecework_orchestrator.ui.reading import read_table
from verification.drill.exercises import SILENT_S, runs
from verification.drill.fleet import Fleet, exercise
from verification.drill.workloads import WORKLOADS, Workload, estimated


@pytest.mark.parametrize(
    "workload",
    [each for each in WORKLOADS if each.name in {"limited", "growing"}],
    ids=lambda each: each.name,
)
def test_the_finish_time_follows_the_limit_that_binds(workload: Workload) -> None:
    found = [estimated(workload, seed) for seed in range(1, 6)]

    assert median(each.error for each in found) <= 0.15
    for each in found:
        assert each.truth_s <= each.p90_s <= 1.5 * each.truth_s


@pytest.mark.parametrize("hows", [["slow"] * 4, ["quick"] * 4], ids=["slow", "ended"])
def test_the_finish_time_is_unknown_with_too_little_data(hows: list[str]) -> None:
    async def act(fleet: Fleet) -> Document:
        await runs(fleet, *hows)
        return await explain(fleet.rt, await fleet.job())

    assert exercise(act)["finish"] is None


def test_the_finish_time_is_unknown_while_no_worker_runs() -> None:
    async def act(fleet: Fleet) -> tuple[Document | None, Document | None]:
        await runs(fleet, *["quick"] * 20, *["slow"] * 10)
        before = await explain(fleet.rt, await fleet.job())
        fleet.kill()
        await asyncio.sleep(SILENT_S)
        after = await explain(fleet.rt, await fleet.job())
        return before["finish"], after["finish"]

    before, after = exercise(act)
    assert before is not None
    assert after is None


def test_the_throughput_of_an_ended_job_stays() -> None:
    async def act(fleet: Fleet) -> tuple[float | None, float | None]:
        await runs(fleet, *["quick"] * 20)
        await asyncio.sleep(SILENT_S)
        first = await read_table(fleet.rt, await fleet.job(), LetterCounts())
        await asyncio.sleep(SILENT_S)
        later = await read_table(fleet.rt, await fleet.job(), LetterCounts())
        return first.rate, later.rate

    first, later = exercise(act)
    assert first is not None
    assert first == later
