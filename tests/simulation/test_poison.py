"""A poison input ends as its own dead letter, and an outage ends for every chunk.

The settings are defaults, and the time is virtual.
"""

from __future__ import annotations

import asyncio

import pytest

from piecework import Context, Dependency, Pipeline, Stage, TransientError
from piecework.domain.chunk import Chunk
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.states import JobStatus
from piecework_simulation.driver import schedule
from piecework_simulation.driver.inputs import WORKLOADS
from piecework_simulation.driver.schedule import run_schedule
from tests.scenarios.pipelines import Item
from tests.unit.orchestrator.simulated import Simulated, simulate
from verification.flow.poison import FIVE, POISON, SHAPES, run_poison

FIVE_MINUTES, A_QUARTER, AN_HOUR = 300.0, 900.0, 3_600.0

oracle = Dependency("oracle")
#: What the oracle answers; empty: it is down.
answers: list[int] = []


@oracle.call
async def foretell(n: int) -> int:
    """Be down, or answer."""
    await asyncio.sleep(0.1)
    if answers:
        return answers[0]
    raise TransientError(f"down for {n}", code="tool.http.503_unavailable")


async def foresee(ctx: Context[Item]) -> int:
    return await foretell(ctx.payload.n)


foreseeing = Pipeline("foreseeing", payload=Item, stages=[Stage(foresee)])


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_poison_input_is_dead_within_five_minutes_and_harms_no_other_chunk(
    shape: Pipeline,
) -> None:
    run = run_poison(shape, POISON)

    assert (JobStatus.PARTIAL, JobStatus.SUCCEEDED) == run.statuses
    assert {POISON} == run.dead_after_s.keys()
    assert run.dead_after_s[POISON] <= FIVE_MINUTES
    assert 0 == run.poisoned_innocents
    (letter,) = run.letters
    assert ("llm.http.500_server_error", 3) == (letter.error_code, letter.attempts)


@pytest.mark.parametrize(("poison", "workers"), [((3, POISON), 8), (FIVE, 2)])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_the_last_of_some_poison_inputs_is_dead_within_five_minutes(
    shape: Pipeline, poison: tuple[int, ...], workers: int
) -> None:
    run = run_poison(shape, *poison, seed=2, workers=workers)

    assert (JobStatus.PARTIAL, JobStatus.SUCCEEDED) == run.statuses
    assert set(poison) == run.dead_after_s.keys()
    assert max(run.dead_after_s.values()) <= FIVE_MINUTES
    assert 0 == run.harmed_innocents


def test_poison_inputs_alone_with_their_dependency_end_as_fast() -> None:
    """No other job comes: the answers that decide are of the job itself.

    Only calls count that began after the first failure. With this seed enough of them
    do. With seed 1 the poison inputs get call slots with the last chunks: no answer
    tells them from an outage, and they end by one probe after another.
    """
    run = run_poison(SHAPES[0], 3, POISON, seed=2, beside=False)

    assert {3, POISON} == run.dead_after_s.keys()
    assert max(run.dead_after_s.values()) <= FIVE_MINUTES
    assert 0 == run.harmed_innocents


def test_an_outage_of_less_than_an_hour_kills_no_chunk_of_a_small_job() -> None:
    async def act(sim: Simulated) -> list[Chunk]:
        await sim.submit(foreseeing, [Item(n=n) for n in range(3)])
        await asyncio.sleep(0.8 * AN_HOUR)
        answers[:] = [17]
        assert JobStatus.SUCCEEDED is (await sim.ended()).status
        return await sim.chunks()

    try:
        ended = simulate(act, [foreseeing], max_attempts=3)
    finally:
        answers.clear()

    # A second attempt: the first one ended before the breaker opened.
    assert all(chunk.attempts <= 2 for chunk in ended)


def test_a_chunk_waits_for_a_long_outage_and_its_dead_letter_says_so() -> None:
    async def act(sim: Simulated) -> tuple[float, list[DeadLetterRow]]:
        began = sim.world.now()
        await sim.submit(foreseeing, [Item(n=n) for n in range(5)])
        assert JobStatus.FAILED is (await sim.ended()).status
        return sim.world.now() - began, await sim.letters()

    took, letters = simulate(
        act, [foreseeing], max_attempts=3, max_deferred_s=A_QUARTER
    )

    assert A_QUARTER < took < 2 * A_QUARTER
    assert {"runtime.deferral.exhausted"} == {x.error_code for x in letters}
    assert 5 == len(letters)
    assert 1 == len({letter.fingerprint for letter in letters})
    for letter in letters:
        assert "oracle could not be called" in letter.error
        assert "tool.http.503_unavailable" in letter.error


def test_a_schedule_whose_provider_fails_for_all_inputs_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = next(each for each in WORKLOADS if each.pipeline.name == "milling")
    monkeypatch.setattr(schedule, "swarm", lambda _: {"input.provider": 1.0})
    verdicts = [run_schedule(seed, [work]) for seed in range(1, 9)]
    assert [] == [verdict.violations for verdict in verdicts if verdict.violations]
    # Two inputs of a job opened the breaker, and probed it.
    assert 2 <= max(verdict.codes["tool.http.500_server_error"] for verdict in verdicts)
