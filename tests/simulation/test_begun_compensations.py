"""A compensation has begun to act, and newer code goes on with its chunk.

True workers on the simulated AWS. The refund has happened, and its worker is killed
before the compensation has ended. No version may take the stage for one that stands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from piecework import Context, PermanentError, Pipeline, Stage
from piecework.domain.chunk import Chunk
from piecework.store.dead_letters import Closing
from piecework_orchestrator.dead_letters.closing import Selection
from piecework_orchestrator.dead_letters.compensate import (
    HandOutcome,
    compensate_selected,
    resolve,
)
from piecework_orchestrator.dead_letters.redrive import redrive
from tests.simulation.test_changed_calls import (
    BOOK,
    KEYED,
    Item,
    Run,
    arrive,
    bank,
    calls,
    has_stopped_or_ended,
    when,
)
from tests.simulation.test_new_code import deploy
from tests.unit.orchestrator.simulated import REF, Simulated, redrive_of, simulate


@pytest.fixture(autouse=True)
def _new_book() -> None:
    BOOK.sent, BOOK.hangs, BOOK.declines = [], "", False


async def act_of(name: str, *, idempotency_key: str = "") -> str:
    """Act."""
    del idempotency_key
    return await arrive(name)


def acts(name: str) -> Run:
    """Return a stage, or a compensation, that acts once."""
    return calls((bank(KEYED), act_of, name))


PAY = acts("pay")


def then(run: Run, end: Callable[[], Awaitable[None]]) -> Run:
    """Return a stage that acts, and then ends so."""

    async def both(ctx: Context[Item]) -> None:
        await run(ctx)
        await end()

    return both


async def never_ends() -> None:
    """Wait for longer than the worker lives."""
    await asyncio.sleep(10_000)


async def fails() -> None:
    """Fail for good."""
    message = "no"
    raise PermanentError(message, code="tool.x.no")


def shop(*, back: Run | None, ship: Run, pay: Run = PAY) -> Pipeline:
    """Return a version of the pipeline."""
    stages = [Stage(pay, name="pay", compensate=back), Stage(ship, name="ship")]
    return Pipeline("shop", payload=Item, stages=stages)


def refunded(_: Chunk) -> bool:
    """Return whether the refund has arrived."""
    return BOOK.sent[-1:] == ["back"]


async def start(at: Simulated, pipeline: Pipeline, code: str) -> None:
    """Replace the workers by those of a version."""
    at.fleet.code_versions = {"shop": code}
    await deploy(at, pipeline)


V1 = shop(back=then(acts("back"), never_ends), ship=then(calls(), fails))
#: The stage itself fails after its act.
FAILED_LATE = shop(back=V1.stages[0].compensate, ship=calls(), pay=then(PAY, fails))
V2 = shop(back=None, ship=then(calls(), fails))
V3 = shop(back=acts("back"), ship=acts("ship"))


async def dies_by_halves(at: Simulated, first: Pipeline = V1) -> None:
    """Kill version 1 after its refund; version 2 has no compensation."""
    await start(at, first, "v1")
    await at.submit(first, [Item()])
    await when(at, refunded)
    await asyncio.sleep(1)
    await start(at, V2, "v2")
    await at.ended()


async def redriven(at: Simulated, pipeline: Pipeline, code: str) -> Chunk:
    """Redrive the chunk by a version; return it once it has stopped or ended."""
    await start(at, pipeline, code)
    gen = (await at.chunks())[0].gen
    await redrive(at.rt, redrive_of(await at.letters()))
    ended = {"WAITING", "SUCCEEDED", "DEAD"}
    return await when(at, lambda chunk: chunk.gen > gen and chunk.status in ended)


@pytest.mark.parametrize("first", [V1, FAILED_LATE])
def test_a_stage_whose_refund_has_happened_does_not_stand(first: Pipeline) -> None:
    async def act(at: Simulated) -> tuple[Chunk, Chunk]:
        await dies_by_halves(at, first)
        stopped = await redriven(at, V3, "v3")
        await at.ended()
        closing = Closing("ann", "refunded")
        letters, by_hand = await at.letters(), HandOutcome.COMPENSATED
        await resolve(at.rt, REF, letters, by_hand, closing)
        return stopped, await redriven(at, V3, "v3")

    stopped, end = simulate(act, [first])

    assert ("WAITING", "runtime.code.changed") == (stopped.status, stopped.error_code)
    assert "SUCCEEDED" == end.status
    assert ["pay", "back", "pay", "ship"] == BOOK.sent


@pytest.mark.parametrize("code", ["v1", "v3"])
def test_a_compensation_that_has_begun_is_ended_by_a_version_that_has_it(
    code: str,
) -> None:
    async def act(at: Simulated) -> Chunk:
        await dies_by_halves(at)
        await start(at, V3, code)
        closing = Closing("ann", "the compensation is back")
        await compensate_selected(at.rt, Selection(await at.letters()), closing)
        await at.ended()
        return await redriven(at, V3, code)

    chunk = simulate(act, [V1])

    assert "SUCCEEDED" == chunk.status
    assert ["pay", "back", "pay", "ship"] == BOOK.sent


def test_an_ended_compensation_with_an_act_stops_no_newer_code() -> None:
    one = shop(back=acts("back"), ship=then(calls(), fails))
    two = Pipeline(
        "shop", payload=Item, stages=[*V3.stages, Stage(acts("x"), name="x")]
    )

    async def act(at: Simulated) -> Chunk:
        await start(at, one, "v1")
        await at.submit(one, [Item()])
        await at.ended()
        return await redriven(at, two, "v2")

    chunk = simulate(act, [one])

    assert "SUCCEEDED" == chunk.status
    assert ["pay", "back", "pay", "ship", "x"] == BOOK.sent


def test_a_begun_compensation_that_moves_to_another_stage_acts_once() -> None:
    fails_later = Stage(
        then(calls(), fails), name="ship", compensate=acts("back"), undo_if_failed=True
    )
    stages = [Stage(PAY, name="pay"), fails_later]
    moved = Pipeline("shop", payload=Item, stages=stages)

    async def act(at: Simulated) -> tuple[Chunk, Chunk]:
        await start(at, V1, "v1")
        await at.submit(V1, [Item()])
        await when(at, refunded)
        await asyncio.sleep(1)
        await start(at, moved, "v2")
        stopped = await when(at, has_stopped_or_ended)
        await start(at, V3, "v3")
        await at.ended()
        return stopped, (await at.chunks())[0]

    stopped, end = simulate(act, [V1])

    assert ("WAITING", "runtime.code.changed") == (stopped.status, stopped.error_code)
    assert ("DEAD", "COMPENSATED") == (end.status, end.compensation)
    assert ["pay", "back"] == BOOK.sent
