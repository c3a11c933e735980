"""How far a forecast from a sample is from what the rest then costs and takes.

Three workloads run in virtual time, with the true submit, workers and forecast. Their
chunks are equal, skewed, or fail. Each workload runs with several samples.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from pydantic import BaseModel

from piecework import (
    Context,
    Dependency,
    PermanentError,
    Pipeline,
    Stage,
    TransientError,
    Usage,
)
from piecework.domain.call_usage import CallUsage
from piecework.domain.moments import moment
from piecework.explain.finish_time import mean_of
from piecework.store.paid import paid_by
from piecework.store.workers import WorkerReports
from piecework_orchestrator.operate.pause import resume
from piecework_orchestrator.submit.sample import forecast_job, wait_for_sample
from tests.unit.orchestrator.simulated import REF, Simulated, simulate

CHUNKS: Final = 400
SAMPLE: Final = 20
WORKERS: Final = 2
SEEDS: Final = range(1, 9)
#: What a token costs, in dollars; any number would do.
USD: Final = 1e-6


class Text(BaseModel):
    """A chunk: its words are what a model reads."""

    words: str
    calls: int = 6
    dies_after: int = -1


def usage(tokens: int) -> Usage:
    """Return the usage of an answer."""
    return Usage(tokens_in=tokens, tokens_out=tokens // 5, usd=tokens * USD)


model = Dependency("model", layer="llm", usage=usage)


@model.call
async def ask(words: str, call: int, dies_after: int) -> int:
    """Answer after a time that follows the text; fail at times."""
    chance = Random(f"{words} {call}")
    if call == dies_after:
        raise PermanentError("It is refused.", code="llm.request.invalid")
    await asyncio.sleep(2.0 + len(words) / 2_000 * chance.uniform(0.7, 1.3))
    if dies_after != -1 and chance.random() < 0.1 and attempts.setdefault(words, 0) < 2:
        attempts[words] += 1
        raise TransientError("It is busy.", http_status=503)
    return round(len(words) / 4 * chance.uniform(0.8, 1.2)) + 200


#: The refusals of each text so far.
attempts: dict[str, int] = {}


async def read(ctx: Context[Text]) -> int:
    """Make the calls of a chunk, one after the other."""
    text = ctx.payload
    return sum(
        [await ask(text.words, call, text.dies_after) for call in range(text.calls)]
    )


PIPELINE: Final = Pipeline("reading", payload=Text, stages=[Stage(read)])


def equal(rng: Random) -> Iterator[Text]:
    """Yield texts of about one length."""
    for n in range(CHUNKS):
        yield Text(words=f"{n} ".ljust(round(rng.gauss(1_000, 50)), "x"))


def skewed(rng: Random) -> Iterator[Text]:
    """Yield texts of which a few are very long; those have more calls, too."""
    for n in range(CHUNKS):
        length = min(20_000, round(rng.lognormvariate(6.5, 0.9)))
        yield Text(words=f"{n} ".ljust(length, "x"), calls=4 + length // 2_000)


def failing(rng: Random) -> Iterator[Text]:
    """Yield texts of which some die in one of their calls, and others are retried."""
    for n in range(CHUNKS):
        dies = rng.randrange(6) if rng.random() < 0.15 else 99
        words = f"{n} ".ljust(round(rng.gauss(1_000, 100)), "x")
        yield Text(words=words, dies_after=dies)


WORKLOADS: Final = (equal, skewed, failing)


@dataclass(frozen=True, slots=True)
class Miss:
    """By how many percent the forecasts of one run were wrong."""

    cost: float
    time: float


def miss_of(texts: Callable[[Random], Iterator[Text]], seed: int) -> Miss:
    """Run a job after its sample; compare the forecast with the outcome."""
    attempts.clear()
    items = list(texts(Random(f"texts {seed}")))  # other draws than the world's

    async def act(sim: Simulated) -> Miss:
        rt = sim.rt
        for number in range(WORKERS):  # as the processes of workers do
            report = WorkerReports(rt.table, f"worker-{number}", rt.clock).report
            slots = rt.settings.max_chunks
            await report(
                [PIPELINE.name],
                [""],
                [],
                max_chunks=slots,
                in_progress=0,
                lease_s=rt.settings.lease_s,
                due_in_s=1e6,
            )
        more: dict[str, Any] = {"sample": SAMPLE, "mortal": False}
        assert await sim.fleet.submit(REF, PIPELINE, items, **more) == "done"
        job = await wait_for_sample(rt, REF.job)
        forecast = await forecast_job(rt, job)
        before = usd_of((await paid_by(rt.table, job)).usage)
        await resume(rt, REF, actor="flow", reason="go on")
        began = rt.clock()
        ended = await sim.ended()
        usd = usd_of((await paid_by(rt.table, ended)).usage) - before
        seconds = moment(ended.finished_at) - began
        return Miss(
            percent(forecast["usd"]["p50"], usd),
            percent(forecast["time_s"]["p50"], seconds),
        )

    return simulate(act, [PIPELINE], workers=WORKERS, seed=seed)


def usd_of(used: CallUsage) -> float:
    """Return dollars."""
    return used.total("paid")["nano_usd"] / 1e9


def percent(forecast: float, came: float) -> float:
    """Return by how many percent a forecast was wrong."""
    return 100 * abs(forecast / came - 1)


@functools.cache
def misses(texts: Callable[[Random], Iterator[Text]]) -> list[Miss]:
    """Run a workload with several samples."""
    return [miss_of(texts, seed) for seed in SEEDS]


def mean_cost_percent(texts: Callable[[Random], Iterator[Text]]) -> float:
    """Return the mean error of the forecast cost of a workload."""
    return mean_of([miss.cost for miss in misses(texts)])


def equal_cost_percent() -> float:
    """Return the mean error with equal chunks."""
    return mean_cost_percent(equal)


def skewed_cost_percent() -> float:
    """Return the mean error with a few very long chunks."""
    return mean_cost_percent(skewed)


def failing_cost_percent() -> float:
    """Return the mean error with chunks that fail."""
    return mean_cost_percent(failing)


def largest_cost_percent() -> float:
    """Return the largest error of all samples of all workloads."""
    return max(miss.cost for texts in WORKLOADS for miss in misses(texts))


def time_percent() -> float:
    """Return the largest mean error of the time of a workload."""
    return max(mean_of([miss.time for miss in misses(texts)]) for texts in WORKLOADS)
