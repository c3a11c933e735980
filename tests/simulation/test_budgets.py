"""A budget holds although workers are killed, by the book of the provider."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from pydantic import BaseModel

from piecework import Context, Dependency, Pipeline, Stage, Usage, named_call
from piecework.domain.budget import Cap
from piecework.domain.states import JobStatus
from piecework.jobs.budgeting import set_tenant_budget
from piecework_orchestrator.operate.cancel import cancel
from piecework_orchestrator.reading.job_documents import explain, require_job
from tests.simulation.life import Shop, charging, items
from tests.unit.orchestrator.simulated import REF, Simulated, simulate

#: What a call uses, as estimated.
TOKENS = 15
CAP = 10
model = Dependency("model", usage=lambda _: Usage(TOKENS), estimate=lambda *_: TOKENS)


class Row(BaseModel):
    n: int


@pytest.mark.parametrize("killed_after_s", [2.0, 3.5, 5.0, 6.0])
def test_a_budget_holds_whenever_a_worker_is_killed(killed_after_s: float) -> None:
    book: Counter[int] = Counter()

    @named_call("ask")
    async def ask(n: int, *, idempotency_key: str) -> int:
        del idempotency_key
        book[n] += 1
        await asyncio.sleep(3.0)
        return n

    async def work(ctx: Context[Row]) -> int:
        return await ctx.call(model, ask, ctx.payload.n)

    pipeline = Pipeline("asking", payload=Row, stages=[Stage(work, name="work")])

    async def act(at: Simulated) -> JobStatus:
        rows, cap = [Row(n=n) for n in range(16)], Cap(CAP * TOKENS)
        await at.fleet.submit(REF, pipeline, rows, budget=cap, mortal=False)
        await asyncio.sleep(killed_after_s)
        at.world.kill(next(iter(at.fleet.workers)))
        await asyncio.sleep(400.0)
        spent = book.total()
        await at.fleet.raise_budget(REF, 100 * TOKENS, mortal=False)
        assert spent <= CAP
        return (await at.ended()).status

    ended = simulate(
        act,
        [pipeline],
        workers=3,
        max_attempts=3,
        lease_s=6.0,
        visibility_s=10.0,
        max_chunks=8,
    )

    assert JobStatus.SUCCEEDED is ended


@pytest.mark.parametrize("whose", ["job", "tenant"])
def test_a_join_that_lacks_its_budget_says_so_and_goes_on_with_a_higher_one(
    whose: str,
) -> None:
    async def act(at: Simulated) -> JobStatus:
        few, more = Cap(15), Cap(1_000)  # few: for the chunk alone
        own, day = (few, more) if whose == "job" else (more, few)
        await set_tenant_budget(at.rt, REF.tenant, day, actor="us")
        await at.fleet.submit(REF, charging, items(""), budget=own, mortal=False)
        await asyncio.sleep(400.0)
        found = (await explain(at.rt, await require_job(at.rt, REF.job)))["findings"]
        assert [f"{whose}.budget_spent"] == [each["code"] for each in found]
        assert found[0]["next"].endswith("tokens N")
        assert ("until" in found[0]) is (whose == "tenant")
        Shop.closed = False
        await at.fleet.raise_budget(REF, 10, mortal=False)
        await set_tenant_budget(at.rt, REF.tenant, more, actor="us")
        return (await at.ended()).status

    assert JobStatus.SUCCEEDED is simulate(act, [charging])


def test_a_budget_holds_in_a_retry_right_after_a_cancel() -> None:
    """The copy of the job that the worker has then is of its cancelled generation."""
    book: Counter[int] = Counter()

    @named_call("ask")
    async def ask(n: int, *, idempotency_key: str) -> int:
        del idempotency_key
        book[n] += 1
        return n

    async def work(ctx: Context[Row]) -> int:
        return await ctx.call(model, ask, ctx.payload.n)

    pipeline = Pipeline("asking", payload=Row, stages=[Stage(work, name="work")])

    async def act(at: Simulated) -> tuple[int, JobStatus]:
        rows = [Row(n=n) for n in range(6)]
        await at.fleet.submit(REF, pipeline, rows, budget=Cap(TOKENS), mortal=False)
        await asyncio.sleep(10.0)
        await cancel(at.rt, REF, actor="us", reason="enough", compensate=True)
        assert (await at.ended()).status is JobStatus.CANCELLED
        await at.fleet.retry(REF, mortal=False)
        await asyncio.sleep(60.0)
        job = await at.rt.jobs.read(REF)
        assert job is not None
        return book.total(), job.status

    ended = simulate(act, [pipeline], cancel_poll_s=5.0, max_attempts=3)

    assert ended == (1, JobStatus.PAUSED)
