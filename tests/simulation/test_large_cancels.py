"""A cancel is quiet at once, however many chunks are still to be marked."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import Context, Pipeline, Stage
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.jobs import cancellation
from piecework_orchestrator.operate.cancel import cancel
from tests.unit.orchestrator.simulated import REF, Simulated, simulate

CHUNKS = 600
NEXT = JobRef(REF.tenant, "next")


class Hold(BaseModel):
    """A chunk."""

    seconds: float = 30.0


class Stages:
    """When stages of each job started and ended, in loop time."""

    def __init__(self) -> None:
        self.changes: dict[str, list[float]] = {REF.job: [], NEXT.job: []}

    async def hold(self, ctx: Context[Hold]) -> None:
        """Take some time."""
        now, times = asyncio.get_running_loop().time, self.changes[ctx.job]
        times.append(now())
        try:
            await asyncio.sleep(ctx.payload.seconds)
        finally:
            times.append(now())

    def pipeline(self) -> Pipeline:
        return Pipeline(
            name="holding", payload=Hold, stages=[Stage(self.hold, name="hold")]
        )


async def never_swept(*_: Any) -> None:
    """Be the sweep of a command that is interrupted as soon as the cancel is known."""
    raise InterruptedError


@pytest.mark.parametrize("swept", [True, False])
def test_a_large_cancel_is_quiet_at_once_and_holds_up_no_other_job(
    monkeypatch: pytest.MonkeyPatch, *, swept: bool
) -> None:
    stages = Stages()
    pipeline = stages.pipeline()

    async def act(here: Simulated) -> tuple[float, float, Counter[str]]:
        await here.submit(pipeline, [Hold()] * CHUNKS)
        await asyncio.sleep(10.0)
        requests: Counter[str] = Counter()
        here.world.on_exchange = lambda when, exchange: requests.update(
            [exchange.operation] * (when == "asked")
        )
        cancelled_at = here.world.loop.time()
        with monkeypatch.context() as patch, suppress(InterruptedError):
            if not swept:
                patch.setattr(
                    "piecework_orchestrator.operate.cancel.sweep", never_swept
                )
            await cancel(here.rt, REF, actor="me", reason="enough")
        await here.fleet.submit(NEXT, pipeline, [Hold(seconds=1.0)], mortal=False)
        submitted_at = here.world.loop.time()
        while not stages.changes[NEXT.job]:  # noqa: ASYNC110 -- a stage sets no event
            await asyncio.sleep(0.05)
        job = await here.ended()
        assert job.status is JobStatus.CANCELLED
        started_at = stages.changes[NEXT.job][0]
        quiet_after = max(stages.changes[REF.job]) - cancelled_at
        return quiet_after, started_at - submitted_at, requests

    quiet_after, next_after, requests = simulate(act, [pipeline], workers=2)
    assert quiet_after <= 2.0
    assert next_after <= 5.0
    writes = requests["update_item"] + requests["transact_write_items"]
    assert writes <= 200
    assert requests["delete_message_batch"] <= CHUNKS / 2


def test_a_cancel_that_was_interrupted_goes_on_where_it_was() -> None:
    """The command may be run again; without it a reconciler goes on."""
    stages = Stages()
    pipeline = stages.pipeline()

    async def act(here: Simulated) -> list[int]:
        await here.submit(pipeline, [Hold()] * CHUNKS)
        reported: list[int] = []

        def interrupt(_: str, done: int) -> None:
            reported.append(done)
            if len(reported) == 2:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            await cancel(here.rt, REF, actor="me", reason="x", progress=interrupt)
        open_chunks = [c for c in await here.chunks() if not c.status.ended]
        assert open_chunks
        await cancel(here.rt, REF, actor="me", reason="x")
        assert (await here.ended()).status is JobStatus.CANCELLED
        return reported

    reported = simulate(act, [pipeline], workers=1)
    assert reported == [
        cancellation.CHUNKS_PER_SWEEPER,
        2 * cancellation.CHUNKS_PER_SWEEPER,
    ]
