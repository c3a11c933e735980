"""Guarantee: a compensation that an operator runs again is never lost to kills."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from pydantic import BaseModel

from piecework import Context, Dependency, Effect, PermanentError, Pipeline, Stage
from piecework.domain.dead_letter import DeadLetterRow
from piecework.store.dead_letters import Closing
from piecework_orchestrator.dead_letters.closing import Selection
from piecework_orchestrator.dead_letters.compensate import (
    HandOutcome,
    compensate_selected,
)
from piecework_orchestrator.dead_letters.redrive import redrive
from tests.unit.orchestrator.simulated import REF, Simulated, redrive_of, simulate

shop = Dependency("shop", effect=Effect.PROVIDER_IDEMPOTENT)
BY = Closing("me", "the shop is back")


class Order(BaseModel):
    """A chunk."""

    n: int


@dataclass
class Shop:
    """What the shop did, and whether it works.

    Attributes:
        holds: Whether a compensation stays after its call, until its worker is killed.
    """

    done: list[str] = field(default_factory=list)
    is_open: bool = False
    holds: bool = True
    held: int = 0


shops: list[Shop] = []


async def act(what: str, *, idempotency_key: str) -> str:
    """Do something in the shop."""
    del idempotency_key
    shops[-1].done.append(what)
    return what


async def reserve(ctx: Context[Order]) -> str:
    """Reserve."""
    return await ctx.call(shop, act, "reserve")


async def free(ctx: Context[Order]) -> None:
    """Free the place; stay after the call."""
    if not shops[-1].is_open:
        raise PermanentError("closed", code="tool.stock.none")
    await ctx.call(shop, act, "free")
    await asyncio.sleep(5)  # the journal has the answer
    shops[-1].held += shops[-1].holds
    if shops[-1].holds:
        await asyncio.sleep(3600)


async def sell(ctx: Context[Order]) -> str:
    """Fail until the shop is open."""
    if not shops[-1].is_open:
        raise PermanentError("sold out", code="tool.stock.none")
    return "sold"


selling = Pipeline(
    "selling", payload=Order, stages=[Stage(reserve, compensate=free), Stage(sell)]
)


async def kill_each_worker_that_compensates(here: Simulated) -> None:
    """Kill until the job has ended."""
    killed = 0
    while not (job := await here.rt.jobs.read(REF)) or not job.status.ended:
        if shops[-1].held > killed:
            killed = shops[-1].held
            here.world.kill(next(iter(here.fleet.workers)))
        await asyncio.sleep(0.5)


async def compensate(
    here: Simulated, outcome: HandOutcome | None = None
) -> dict[str, int]:
    """Compensate the open dead letters."""
    selection = Selection(await here.letters())
    return await compensate_selected(here.rt, selection, BY, outcome)


def run(outcome: HandOutcome | None) -> tuple[Shop, list[DeadLetterRow]]:
    """Kill each worker that runs a compensation again; then settle it."""
    shops.append(Shop())

    async def scenario(here: Simulated) -> list[DeadLetterRow]:
        await here.submit(selling, [Order(n=1)])
        await here.ended()
        shops[-1].is_open = True
        assert await compensate(here) == {"a": 1}
        await kill_each_worker_that_compensates(here)
        letters = await here.letters()
        shops[-1].holds = False
        assert await compensate(here, outcome) == {"a": 1}
        await here.ended()
        letters += await here.letters()
        await redrive(here.rt, redrive_of(await here.letters()))
        assert (await here.ended()).status == "SUCCEEDED"
        return letters

    letters = simulate(scenario, [selling], max_takeovers=0)
    return shops[-1], letters


def test_an_abandoned_compensation_runs_again_without_its_answered_calls() -> None:
    here, (abandoned, settled) = run(None)
    assert here.held > 3
    assert (abandoned.compensation, settled.compensation) == (
        "ABANDONED",
        "COMPENSATED",
    )
    assert abandoned.error_code == settled.error_code == "tool.stock.none"
    assert [error["message"] for error in settled.error_history] == ["sold out"]
    assert here.done == ["reserve", "free", "reserve"]


def test_an_abandoned_compensation_is_settled_by_hand() -> None:
    here, (abandoned, settled) = run(HandOutcome.NOT_NEEDED)
    assert (abandoned.gen, settled.gen) == (2, 2)
    assert settled.facts["resolved_stages"] == ["reserve"]
    assert here.done == ["reserve", "free"]
