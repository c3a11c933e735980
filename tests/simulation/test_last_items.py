"""A whole job on the simulated AWS: the last chunk of a group, and what a death keeps.

Each test is about an item that one small slip would lose: the last one of a full group,
a paid call that was not written yet, a chunk that ended before it was reopened.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from pydantic import BaseModel

from piecework import Context, Dependency, JoinContext, PermanentError, Pipeline, Stage
from piecework.domain import keys
from piecework.domain.model import ChunkStatus, JobStatus
from piecework.jobs.fan_in import Certificate
from piecework_orchestrator.redrive import redrive
from piecework_simulation.engine.network import Exchange
from tests.unit.orchestrator.simulated import (
    REF,
    RedriveRequest,
    Simulated,
    redrive_of,
    simulate,
)

#: One chunk more than a group has.
MANY = keys.PARTITION_SIZE + 1
desk = Dependency("desk", breaker=None)


class Item(BaseModel):
    n: int


class Shop:
    """A provider that counts its calls, and the stage that pays before it fails."""

    def __init__(self) -> None:
        self.paid: Counter[int] = Counter()
        self.joined: list[list[int]] = []
        self.broken = True
        self.times: list[float] = []

    async def pay(self, n: int, *, idempotency_key: str) -> int:
        del idempotency_key
        self.paid[n] += 1
        self.times.append(asyncio.get_running_loop().time())
        return n

    async def work(self, ctx: Context[Item]) -> int:
        value = await ctx.call(desk, self.pay, ctx.payload.n)
        if self.broken:
            raise PermanentError("broken", code="tool.shop.broken")
        return value

    async def join(self, ctx: JoinContext) -> None:
        self.joined.append([result.value async for result in ctx.results()])

    def pipeline(self) -> Pipeline:
        return Pipeline(
            "shop", payload=Item, stages=[Stage(self.work, name="work")], join=self.join
        )


@pytest.fixture
def shop() -> Shop:
    return Shop()


def items(count: int) -> list[Item]:
    return [Item(n=n) for n in range(count)]


def test_no_chunk_of_a_full_group_is_missing_before_or_after_a_redrive(
    shop: Shop,
) -> None:
    pipeline = shop.pipeline()

    async def act(at: Simulated) -> Certificate:
        await at.submit(pipeline, items(MANY))
        assert JobStatus.FAILED is (await at.ended()).status
        letters = await at.letters()
        # A chunk that died without its page of calls would pay again.
        assert list(range(MANY)) == [letter.chunk for letter in letters]
        shop.broken = False
        assert (MANY, 2) == await redrive(at.rt, redrive_of(letters))
        job = await at.ended()
        assert JobStatus.SUCCEEDED is job.status
        stored = await at.rt.objects.get(job.certificate)
        return Certificate.model_validate_json(stored)

    certificate = simulate(act, [pipeline], workers=2)

    assert list(range(MANY)) == sorted(certificate.results)
    assert list(range(MANY)) == shop.joined[-1]
    assert Counter(range(MANY)) == shop.paid


def test_reopened_chunks_do_not_count_as_ended(shop: Shop) -> None:
    pipeline = shop.pipeline()

    async def act(at: Simulated) -> frozenset[int]:
        await at.submit(pipeline, items(3))
        await at.ended()
        some = (await at.letters())[:2]
        slowly = RedriveRequest(REF, some, "tester", "it is fixed", rate=0.01)
        await redrive(at.rt, slowly)
        waiting = (await at.chunks())[1]
        assert ChunkStatus.PENDING is waiting.status
        return await at.rt.tallies.ended_of_group(REF, 0)

    assert 1 not in simulate(act, [pipeline])


def test_a_lease_runs_from_its_request_not_from_the_answer(shop: Shop) -> None:
    shop.broken, pipeline, claimed_at = False, shop.pipeline(), list[float]()

    async def act(at: Simulated) -> float:
        lease_s, loop = at.rt.settings.lease_s, at.world.loop

        def stop_before_the_answer(when: str, exchange: Exchange) -> None:
            claims = "claim_token" in str(exchange.request.get("UpdateExpression"))
            if when == "applied" and claims and not claimed_at:
                claimed_at.append(loop.time())
                loop.freeze(exchange.client.process, 0.95 * lease_s)

        at.world.on_exchange = stop_before_the_answer
        await at.submit(pipeline, items(1))
        await at.ended()
        return claimed_at[0] + lease_s

    over_at = simulate(act, [pipeline], max_attempts=3)

    # The first claim is too old for work; its call is made under the second one.
    assert [True] == [moment > over_at for moment in shop.times]
