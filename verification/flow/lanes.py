"""What a job of 400 calls pays in the flex lane, while its workers are killed.

True workers in virtual time ask a provider through the SDK of OpenAI. The provider
writes a book: it bills each request that it accepts, also if its worker has died.
"""

from __future__ import annotations

import asyncio
import functools
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from piecework.declared import as_pipeline
from piecework.domain.states import ChunkStatus
from piecework.runtime import EMBEDDED_ACCOUNT
from piecework.settings import load_settings
from piecework.store.paid import paid_by
from piecework_simulation.in_process import InProcessAws
from tests.scenarios import flexing
from tests.scenarios.conftest import EPOCH, SHORT, Scenario
from tests.scenarios.flexing import FlexProvider, Question
from tests.virtual_time import VirtualLoop

#: Chunks of two calls each, workers at once, kills, and seconds between two of them.
CHUNKS, WORKERS, KILLS, BETWEEN_S = 200, 3, 8, 20.0
#: The requests for which the lane has no room, and each n-th answer of another tier.
FULL, DOWNGRADED = range(100, 160), 80
DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class LaneRun:
    """What the provider and Piecework say of one job; money in billionths."""

    booked: int
    direct: int
    paid: int
    possibly_paid: int
    calls: int
    lost: int
    attempts: int


async def run_killed() -> LaneRun:
    """Run the job, and kill a worker again and again."""
    os.environ |= {name: os.environ.get(name, value) for name, value in SHORT.items()}
    provider = flexing.current = FlexProvider(
        has_room=lambda number: number not in FULL,
        keeps_tier=lambda number: number % DOWNGRADED != 0,
        bills_the_dead=True,
    )
    loop, settings = asyncio.get_running_loop(), load_settings()
    bucket = settings.bucket(EMBEDDED_ACCOUNT, "us-east-1")
    aws = InProcessAws(settings, bucket, Random(1), lambda: EPOCH + loop.time())
    with tempfile.TemporaryDirectory() as folder:
        at = Scenario(aws.runtime(), Path(folder) / "ledger", aws=aws)
        items: Any = [Question(n=n) for n in range(CHUNKS)]
        await at.submit(as_pipeline(flexing.flexing), items)
        rng = Random(2)
        workers = [await worker(at) for _ in range(WORKERS)]
        for _ in range(KILLS):
            await asyncio.sleep(rng.uniform(0.0, 2 * BETWEEN_S))
            await workers.pop(rng.randrange(WORKERS)).kill()
            workers.append(await worker(at))
        job = await at.ended(within=DAY_S)
        usage = (await paid_by(at.rt.table, job)).usage
        chunks = await at.chunks()
        for each in at.processes:
            await each.bury()
    return LaneRun(
        provider.nano_usd,
        provider.direct_nano_usd,
        usage.total("paid")["nano_usd"],
        usage.total("possibly_paid")["nano_usd"],
        usage.total("paid")["calls"],
        sum(chunk.status is not ChunkStatus.SUCCEEDED for chunk in chunks),
        max(chunk.attempts for chunk in chunks),
    )


async def worker(at: Scenario) -> Any:
    """Start a worker."""
    return await at.process(pipelines=flexing.__name__)


@functools.cache
def killed() -> LaneRun:
    """Return the run, which is made once."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(run_killed())


def cost_by_direct() -> float:
    """Return what the provider billed, as a share of the price of direct calls."""
    return killed().booked / killed().direct


def unbilled_usd() -> float:
    """Return what the provider billed and the bill does not have, in dollars."""
    run = killed()
    return max(0, run.booked - run.paid - run.possibly_paid) / 1e9


def overbilled_usd() -> float:
    """Return what the bill has as paid and the provider did not bill, in dollars."""
    return max(0, killed().paid - killed().booked) / 1e9


def lost_chunks() -> float:
    """Return the chunks without a result."""
    return killed().lost
