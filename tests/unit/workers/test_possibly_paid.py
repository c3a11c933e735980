"""After a kill the bill has an upper bound of what was paid twice, and a close one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from piecework import Context, Dependency, Effect, Pipeline, Stage, Usage
from piecework.domain.budget import parse_cap
from piecework.store.paid import Paid, paid_by
from piecework_orchestrator.reading.job_documents import budget_facts
from piecework_simulation.engine.process import PROCESS
from tests.unit.orchestrator.simulated import REF, Simulated, simulate
from tests.unit.workers.test_chunk_life import Item

CALLS, LEASE_S = 120, 20.0
model = Dependency(
    "model", usage=lambda _: Usage(tokens_in=10), estimate=lambda *_, **__: 10
)
late = Dependency("late", timeout=2.0)
bank = Dependency("bank", effect=Effect.PROVIDER_IDEMPOTENT)

#: The calls that the provider has taken, over all workers.
asked: list[tuple[str, int]] = []
#: The call after whose start the worker is killed, and the seconds until then.
kill: list[Any] = []
seconds: list[float] = []


async def ask(number: int, *, idempotency_key: str) -> int:
    """Take a call; the first one of that number kills its worker a little later."""
    asked.append(("ask", number))
    if kill and number == kill[0]:
        _, after, world = kill
        kill.clear()
        process = PROCESS.get()
        asyncio.get_running_loop().call_later(after, lambda: world.kill(process))
    await asyncio.sleep(seconds[0])
    return number


async def charge(number: int, *, idempotency_key: str) -> int:
    """Take a call with an effect."""
    asked.append(("charge", number))
    return number


async def hang(number: int, *, idempotency_key: str) -> int:
    """Take a call, and hang three times; the third time its worker is killed."""
    asked.append(("hang", number))
    if len(asked) == 3:
        process, world = PROCESS.get(), kill[0]
        asyncio.get_running_loop().call_later(1.0, lambda: world.kill(process))
    if len(asked) <= 3:
        await asyncio.sleep(60.0)
    return number


async def one_by_one(ctx: Context[Item]) -> int:
    return sum([await ctx.call(model, ask, n) for n in range(CALLS)])


async def four_at_a_time(ctx: Context[Item]) -> int:
    room = asyncio.Semaphore(4)

    async def one(number: int) -> int:
        async with room:
            return await ctx.call(model, ask, number)

    return sum(await asyncio.gather(*map(one, range(CALLS))))


async def all_at_once(ctx: Context[Item]) -> int:
    calls = (ctx.call(model, ask, n) for n in range(CALLS))
    return sum(await asyncio.gather(*calls))


async def a_few(ctx: Context[Item]) -> int:
    return sum([await ctx.call(model, ask, n) for n in range(3)])


async def charged_between(ctx: Context[Item]) -> int:
    first = sum([await ctx.call(model, ask, n) for n in range(3)])
    return first + sum([await ctx.call(bank, charge, n) for n in range(20)])


async def bill_of_ended(at: Simulated) -> tuple[int, int]:
    """Return the calls that an ended job has paid for, and possibly paid for."""
    await at.ended()
    job = await at.rt.jobs.read(REF)
    assert job is not None
    usage = (await paid_by(at.rt.table, job)).usage
    return usage.total("paid")["calls"], usage.total("possibly_paid")["calls"]


@pytest.mark.parametrize(
    ("stage", "duration", "killed_at", "after", "most"),
    [
        # One call is in flight. The answer before it may not be on record.
        (one_by_one, 1.0, 29, 0.5, 2),
        (one_by_one, 1.0, 29, 0.9, 2),
        # The answers of the last 250 ms are not on record.
        (one_by_one, 0.03, 60, 0.01, 25),
        (four_at_a_time, 1.0, 60, 0.5, 4 + 2 * 4 + 4),
        (four_at_a_time, 0.03, 60, 0.01, 60),
        # At most as many are in flight as a worker makes at once.
        (all_at_once, 1.0, 70, 0.5, CALLS),
        (charged_between, 1.0, 2, 0.5, 2),
    ],
)
def test_the_bound_holds_and_is_close(
    stage: Callable[[Context[Item]], Awaitable[int]],
    duration: float,
    killed_at: int,
    after: float,
    most: int,
) -> None:
    asked.clear()
    pipeline = Pipeline("paying", payload=Item, stages=[Stage(stage, name="work")])

    async def act(at: Simulated) -> tuple[int, int]:
        kill[:], seconds[:] = [killed_at, after, at.world], [duration]
        await at.submit(pipeline, [Item()])
        return await bill_of_ended(at)

    paid, possibly = simulate(
        act, [pipeline], workers=2, lease_s=LEASE_S, max_takeovers=3
    )

    unknown = len(asked) - paid
    assert 0 < unknown <= possibly <= most


@pytest.mark.parametrize(
    ("kills", "after", "stages", "unrecorded"),
    [
        # Each lost claim may have made the calls whose answers are on no record.
        (2, 0.02, [Stage(a_few, name="few")], 2 * 3),
        # No later claim makes the calls of a stage that has completed.
        (1, 0.08, [Stage(a_few, name="few"), Stage(one_by_one, name="work")], 1),
    ],
)
def test_nothing_that_lost_claims_paid_is_missing(
    kills: int, after: float, stages: list[Stage], unrecorded: int
) -> None:
    asked.clear()
    pipeline = Pipeline("paying", payload=Item, stages=stages)

    async def act(at: Simulated) -> tuple[int, int]:
        seconds[:] = [0.05]  # the journal is written after 0.25 s
        await at.submit(pipeline, [Item()])
        for _ in range(kills):
            kill[:] = [2, after, at.world]
            while kill:  # noqa: ASYNC110 -- virtual time
                await asyncio.sleep(1.0)
        return await bill_of_ended(at)

    paid, possibly = simulate(
        act, [pipeline], workers=3, lease_s=LEASE_S, max_takeovers=3
    )

    assert len(asked) - paid == unrecorded
    assert unrecorded <= possibly


def test_the_attempts_of_a_lost_claim_without_an_answer_are_possibly_paid() -> None:
    asked.clear()

    async def work(ctx: Context[Item]) -> int:
        return await ctx.call(late, hang, 1)

    pipeline = Pipeline("paying", payload=Item, stages=[Stage(work)])

    async def act(at: Simulated) -> tuple[int, int]:
        kill[:] = [at.world]
        await at.submit(pipeline, [Item()])
        return await bill_of_ended(at)

    ends = simulate(act, [pipeline], workers=2, lease_s=LEASE_S, max_takeovers=3)
    assert (ends, len(asked)) == ((1, 3), 4)


def test_the_budget_that_is_shown_agrees_with_the_bill() -> None:
    """A slice that outlives its worker is replaced when its calls are on record."""
    asked.clear()
    stages = [Stage(one_by_one, name="work")]
    pipeline = Pipeline("paying", payload=Item, stages=stages)

    async def act(at: Simulated) -> tuple[Any, Any, Any]:
        kill[:], seconds[:] = [29, 0.5, at.world], [1.0]
        cap = parse_cap(None, 100_000)
        await at.fleet.submit(REF, pipeline, [Item()], mortal=False, budget=cap)
        await asyncio.sleep(29 + 2 * LEASE_S)
        open_, open_paid = await facts_of(at)
        assert open_paid.unrepeated
        await at.ended()
        ended, paid = await facts_of(at)
        return open_, ended, paid.usage

    async def facts_of(at: Simulated) -> tuple[Any, Paid]:
        job = await at.rt.jobs.read(REF)
        assert job is not None
        facts = (await budget_facts(at.rt, job))["budget"]
        return facts, await paid_by(at.rt.table, job)

    open_, ended, usage = simulate(
        act, [pipeline], workers=2, lease_s=LEASE_S, max_takeovers=3
    )

    shown = (ended["spent_tokens"], ended["uncertain_tokens"])
    assert (usage.total("paid")["tokens_in"], 20) == shown
    assert 20 == usage.total("possibly_paid")["tokens_in"]
    assert open_["uncertain_tokens"] >= ended["uncertain_tokens"]
    assert 10 * len(asked) <= sum(shown)
