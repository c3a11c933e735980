"""Effects, questions and lease renewals of one chunk meet on its row, and cost nothing.

AWS refuses one of two requests on an item of a transaction at a time. Here transactions
last longer than on AWS, and the keys of the job are throttled for seconds.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from pydantic import BaseModel

from piecework import Approval, Context, Dependency, Effect, Pipeline, Stage
from piecework.domain.job import Job
from piecework.domain.states import ChunkStatus
from piecework_orchestrator.operate.approvals import AnswerRequest, answer
from piecework_simulation.aws.conflicts import Conflicts
from piecework_simulation.aws.throughput import HOT, Throughput
from piecework_simulation.engine.faults import Faults
from tests.unit.orchestrator.simulated import REF, Simulated, simulate

#: Effects of one stage at a time.
EFFECTS = 20
#: The longest transaction, in seconds; a lease is renewed after 10 s.
LONGEST_S = 2.0
PAID: Counter[str] = Counter()


class Order(BaseModel):
    """The payload."""


shop = Dependency("shop", effect=Effect.PROVIDER_IDEMPOTENT, timeout=60.0)


@shop.call
async def pay(part: int, idempotency_key: str = "") -> int:
    """Take some seconds, so that leases are renewed meanwhile."""
    await asyncio.sleep(part / 2)
    PAID[idempotency_key] += 1
    return part


async def buy(ctx: Context[Order]) -> int:
    """Make all payments at a time."""
    return sum(await asyncio.gather(*map(pay, range(EFFECTS))))


async def confirm(ctx: Context[Order]) -> bool:
    """Ask a person, and pay beside it."""
    asked = ctx.wait_for("approval", ask="Keep it?", timeout=3_600.0)
    approval, _ = await asyncio.gather(asked, pay(EFFECTS))
    return approval.approved


shopping = Pipeline("shopping", payload=Order, stages=[Stage(buy), Stage(confirm)])


async def read_job(here: Simulated) -> Job:
    """Return the job."""
    found = await here.rt.jobs.read(REF)
    assert found is not None
    return found


async def shop_once(here: Simulated) -> tuple[int, int]:
    """Run one chunk; return how many conflicts and throttled requests it met."""
    world = here.world
    await here.submit(shopping, [Order()])
    chaos = Faults({HOT: 0.01}, world.rng)
    world.dynamodb.conflicts = conflicts = Conflicts(world.now, world.rng, LONGEST_S)
    limits = Throughput(world.now, world.rng, chaos=chaos)
    here.fleet.worker(reconcile=True)

    async def with_limits(seconds: float) -> None:
        """Throttle for a while: not what the test itself reads after it."""
        world.dynamodb.throughput = limits
        await asyncio.sleep(seconds)
        world.dynamodb.throughput = None

    while (await here.chunks())[0].status is not ChunkStatus.WAITING:
        await with_limits(5.0)
    request = AnswerRequest(Approval(approved=True), "ada", "it is right")
    await answer(here.rt, REF.chunk(0), request)
    while not (await read_job(here)).status.ended:
        await with_limits(5.0)
    (chunk,) = await here.chunks()
    assert chunk.status is ChunkStatus.SUCCEEDED
    assert (chunk.attempts, chunk.takeovers) == (1, 0)
    return conflicts.refused, limits.throttled


def test_conflicts_and_throttles_of_a_chunk_cost_no_attempt_and_no_lease() -> None:
    met = []
    for seed in range(1, 9):
        PAID.clear()
        times = {"lease_s": 30.0, "visibility_s": 45.0}
        met.append(simulate(shop_once, [shopping], workers=0, seed=seed, **times))
        assert list(PAID.values()) == [1] * (EFFECTS + 1)
    conflicts, throttled = map(sum, zip(*met, strict=True))
    assert conflicts
    assert throttled
