"""A canary redrive beside real workers: its limit, and other operators' redrives."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import Context, PermanentError, Pipeline, Stage
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.moments import iso
from piecework.domain.states import JobStatus
from piecework.errors import UsageError, WaitTimeoutError
from piecework.store.reopen import reopen_chunk
from piecework_orchestrator.dead_letters.canary import (
    CanaryRequest,
    CanaryResult,
    Verdict,
    WaveResult,
    redrive_canary,
)
from piecework_orchestrator.dead_letters.redrive import redrive
from piecework_orchestrator.operate import retry as retrying
from piecework_orchestrator.operate.retry import RetryRequest, retry
from tests.unit.orchestrator.simulated import REF, Simulated, redrive_of, simulate


class Order(BaseModel):
    """A chunk."""

    n: int


@dataclass
class Stock:
    """Orders fail while they are out of stock; afterwards each takes some seconds."""

    seconds: float = 20.0
    missing: set[int] = field(default_factory=lambda: {0, 1, 2})

    def pipeline(self) -> Pipeline:
        async def sell(ctx: Context[Order]) -> int:
            if ctx.payload.n in self.missing:
                raise PermanentError("out of stock", code="tool.stock.none")
            await asyncio.sleep(self.seconds)
            return ctx.payload.n

        return Pipeline(name="selling", payload=Order, stages=[Stage(sell)])


async def with_dead_letters(here: Simulated, pipeline: Pipeline) -> list[DeadLetterRow]:
    """Submit three orders that all die; return their dead letters."""
    await here.submit(pipeline, [Order(n=n) for n in range(3)])
    await here.ended()
    letters = await here.letters()
    assert [0, 1, 2] == [letter.chunk for letter in letters]
    return letters


async def run_canary(
    here: Simulated,
    letters: list[DeadLetterRow],
    first: int = 1,
    within: float | None = None,
) -> CanaryResult:
    request = CanaryRequest(letters, lambda _, some: redrive_of(some), first, within)
    waves: list[WaveResult] = []
    result = await redrive_canary(here.rt, request, waves.append, lambda _: None)
    assert waves == result.waves
    return result


@pytest.mark.parametrize(("within", "left"), [(30.0, []), (10.0, [1, 2])])
def test_the_limit_of_a_canary_covers_all_its_waves_together(
    within: float, left: list[int]
) -> None:
    stock = Stock(seconds=20.0)
    pipeline = stock.pipeline()

    async def act(here: Simulated) -> tuple[float, str, list[int]]:
        letters = await with_dead_letters(here, pipeline)
        stock.missing.clear()
        began = asyncio.get_running_loop().time()
        with pytest.raises(WaitTimeoutError) as refused:
            await run_canary(here, letters, within=within)
        took = asyncio.get_running_loop().time() - began
        open_ = [letter.chunk for letter in await here.letters()]
        return took, refused.value.message, open_

    took, message, open_ = simulate(act, [pipeline])
    assert pytest.approx(within, abs=1.0) == took
    assert left == open_
    assert message.endswith(f"Dead letters not redriven: {len(left)}.")


def test_a_canary_with_enough_time_redrives_everything() -> None:
    stock = Stock(seconds=20.0)
    pipeline = stock.pipeline()

    async def act(here: Simulated) -> CanaryResult:
        letters = await with_dead_letters(here, pipeline)
        stock.missing.clear()
        return await run_canary(here, letters, within=60.0)

    result = simulate(act, [pipeline])
    assert (Verdict.CONTINUE, 0) == (result.verdict, result.remaining)
    assert [(1, 1), (2, 2)] == [(w.redriven, w.succeeded) for w in result.waves]


def test_a_wave_does_not_count_what_another_redrive_has_redriven() -> None:
    """The other operator's chunk died again, which says nothing about our wave."""
    stock = Stock(seconds=0.0)
    pipeline = stock.pipeline()

    async def act(here: Simulated) -> CanaryResult:
        letters = await with_dead_letters(here, pipeline)
        await redrive(here.rt, redrive_of(letters[2:]))
        await here.ended()
        stock.missing.clear()
        return await run_canary(here, letters, first=3)

    result = simulate(act, [pipeline])
    assert (Verdict.CONTINUE, 0) == (result.verdict, result.remaining)
    assert [WaveResult(redriven=2, succeeded=2)] == result.waves


def test_a_canary_beside_a_redrive_that_runs_is_refused_and_reopens_nothing() -> None:
    stock = Stock(seconds=60.0)
    pipeline = stock.pipeline()

    async def act(here: Simulated) -> tuple[str, list[int]]:
        letters = await with_dead_letters(here, pipeline)
        stock.missing.clear()
        await redrive(here.rt, redrive_of(letters[:1]))
        with pytest.raises(UsageError) as refused:
            await run_canary(here, letters[1:])
        return refused.value.code, [row.chunk for row in await here.letters()]

    assert ("job.state.not_finished", [1, 2]) == simulate(act, [pipeline])


def test_of_two_canaries_at_once_one_runs_and_no_chunk_runs_twice() -> None:
    stock = Stock(seconds=5.0)
    pipeline = stock.pipeline()

    async def act(here: Simulated) -> tuple[list[str], list[int]]:
        letters = await with_dead_letters(here, pipeline)
        stock.missing.clear()
        outcomes = await asyncio.gather(
            *map(partial(run_canary, here), (letters, letters)), return_exceptions=True
        )
        await here.ended()
        assert [] == await here.letters()
        said = [
            o.verdict if isinstance(o, CanaryResult) else getattr(o, "code", repr(o))
            for o in outcomes
        ]
        return sorted(said), [chunk.attempts for chunk in await here.chunks()]

    said, attempts = simulate(act, [pipeline])
    assert Verdict.CONTINUE in said
    assert [1, 1, 1] == attempts


# ── two commands reopen one job ──────────────────────────────────────────────


async def reopening(here: Simulated) -> None:
    """Wait until the job is being reopened."""
    while True:
        job = await here.rt.jobs.read(REF)
        if job is not None and job.status is JobStatus.REOPENING:
            return
        await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("actor", "codes"),
    [
        ("another", ["", "job.retry.in_progress"]),
        # It may repeat the first command, so it takes part, and ends the reopening.
        ("tester", ["job.retry.incomplete", ""]),
    ],
)
def test_of_two_commands_at_once_one_says_what_it_did_not_reopen(
    monkeypatch: pytest.MonkeyPatch, actor: str, codes: list[str]
) -> None:
    pipeline, done = Stock().pipeline(), asyncio.Event()

    async def held(table: Any, chunk: Any, *more: Any) -> bool:
        if chunk.ref.chunk == 0:
            await done.wait()
        return await reopen_chunk(table, chunk, *more)

    async def act(here: Simulated) -> list[str]:
        letters = await with_dead_letters(here, pipeline)
        asked = redrive_of(letters[:2]), replace(redrive_of(letters[2:]), actor=actor)
        first = asyncio.create_task(redrive(here.rt, asked[0]))
        await reopening(here)
        second = asyncio.create_task(redrive(here.rt, asked[1]))
        await asyncio.wait([second])
        done.set()
        ends = await asyncio.gather(first, second, return_exceptions=True)
        return [getattr(end, "code", "") for end in ends]

    monkeypatch.setattr(retrying, "reopen_chunk", held)
    assert codes == simulate(act, [pipeline])


def test_an_interrupted_retry_is_repeated_at_once_also_with_a_deadline() -> None:
    pipeline = Stock().pipeline()

    async def act(here: Simulated) -> tuple[str, int, str, str]:
        await with_dead_letters(here, pipeline)
        asked = RetryRequest(REF, "tester", "it is fixed", here.rt.clock() + 3600.0)
        first = asyncio.create_task(retry(here.rt, replace(asked, deadline=None)))
        await reopening(here)
        first.cancel()
        with pytest.raises(UsageError) as refused:
            await retry(here.rt, replace(asked, actor="another"))
        await retry(here.rt, asked)
        job = await here.rt.jobs.read(REF)
        assert job is not None
        gens = {chunk.gen for chunk in await here.chunks()}
        assert {2} == gens
        return refused.value.code, job.gen, job.deadline_at, iso(asked.deadline or 0)

    code, gen, until, wanted = simulate(act, [pipeline])
    assert ("job.retry.in_progress", 2, wanted) == (code, gen, until)
