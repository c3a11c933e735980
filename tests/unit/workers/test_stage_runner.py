from __future__ import annotations

import asyncio
import errno
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from piecework.context import Context
from piecework.errors import WorkerExhaustedError
from piecework.pipelines import Pipeline, Stage
from piecework_worker.exclusive_claims import ExclusiveClaims
from piecework_worker.lease import Lease
from piecework_worker.stage_durations import MIN_SAMPLES, RunningStage
from piecework_worker.stage_runner import StageRuns, WorkerStageRunner
from tests.unit.piecework.fakes import Clause, context
from tests.unit.workers.virtual_leases import LEASE, virtually


class Elsewhere:
    """Stands for the children."""

    async def run(self, _: Stage, __: Any, variant: str) -> str:
        return '"undone there"' if variant == "compensate" else '"there"'

    async def run_suspect(
        self, _: Stage, __: Any, ___: str, *, waiting: Any, fresh: bool
    ) -> str:
        with waiting():
            await asyncio.sleep(0)
        return '"as a fresh suspect"' if fresh else '"as a suspect"'


def elsewhere() -> StageRuns:
    children: Any = Elsewhere()
    return StageRuns(children)


async def here(_: Context[Clause]) -> str:
    return "here"


async def slow(_: Context[Clause]) -> None:
    await asyncio.sleep(60)


async def broken(_: Context[Clause]) -> None:
    await asyncio.sleep(60)
    raise ValueError("broken")


async def run(
    place: StageRuns,
    stage: Stage,
    variant: str = "run",
    *,
    suspect: bool = False,
    claimed: str = "token",
    exhaustions: int = 0,
    leases: dict[str, Lease] | None = None,
) -> str:
    pipeline = Pipeline(name="review", payload=Clause, stages=[stage])
    ctx = context(pipeline, stage=stage.name)
    chunk = SimpleNamespace(exhaustions=exhaustions)
    claim: Any = SimpleNamespace(token=claimed, is_suspect=suspect, chunk=chunk)
    async with place.exclusive.shared():
        now = asyncio.get_running_loop().time()
        lease = Lease(claim, None, LEASE, now, now)
        (leases if leases is not None else {})[claimed] = lease
        return await WorkerStageRunner(lease, place).run(stage, ctx, variant)


async def test_a_stage_runs_in_a_child_only_if_it_asks_for_it() -> None:
    place = elsewhere()

    assert '"here"' == await run(place, Stage(here))
    assert '"there"' == await run(place, Stage(here, isolate=True))
    assert '"undone there"' == await run(place, Stage(here, isolate=True), "compensate")


async def test_a_suspect_and_a_stage_that_blocked_the_loop_run_in_a_child() -> None:
    place = elsewhere()

    assert '"as a suspect"' == await run(place, Stage(here), suspect=True)
    fresh = await run(place, Stage(here), suspect=True, exhaustions=1)
    assert '"as a fresh suspect"' == fresh
    place.blocked_loop.stages.add(("review", "here"))
    assert '"as a suspect"' == await run(place, Stage(here))
    assert '"there"' == await run(place, Stage(here, isolate=True), suspect=True)


@virtually
async def test_a_suspect_without_a_child_runs_beside_no_other_chunk() -> None:
    place, spans = StageRuns(), []
    leases: dict[str, Lease] = {}
    now = asyncio.get_running_loop().time

    async def noted(_: Context[Clause]) -> None:
        began = now()
        await asyncio.sleep(60)
        spans.append((began - started, now() - started))

    started = now()
    first = asyncio.create_task(run(place, Stage(noted), claimed="first"))
    await asyncio.sleep(1)
    suspects = [
        asyncio.create_task(
            run(place, Stage(noted), suspect=True, claimed=claim, leases=leases)
        )
        for claim in ("second", "third")
    ]
    await asyncio.sleep(1)
    await asyncio.gather(first, *suspects, run(place, Stage(noted), claimed="last"))
    assert [(0, 60), (60, 120), (120, 180), (180, 240)] == spans
    # Their waits do not count as runtime.
    runs = [leases[claim].started_at - started for claim in ("second", "third")]
    assert [60, 120] == runs


@pytest.mark.parametrize(
    ("exhaustions", "raised"),
    [(0, WorkerExhaustedError), (9, WorkerExhaustedError), (10, OSError)],
)
async def test_a_stage_that_lacks_a_handle_in_a_shared_worker_is_not_at_fault(
    exhaustions: int, raised: type[Exception]
) -> None:
    async def lacks(_: Context[Clause]) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with pytest.raises(raised):
        await run(StageRuns(), Stage(lacks), exhaustions=exhaustions)


async def test_a_claim_runs_alone_although_its_caller_was_not_counted() -> None:
    claims = ExclusiveClaims()
    async with asyncio.timeout(1), claims.alone(nullcontext):
        assert 1 == claims.wanted
    assert (0, 0) == (claims.active, claims.wanted)


async def test_without_children_a_stage_runs_in_the_worker() -> None:
    assert '"here"' == await run(StageRuns(), Stage(here, isolate=True))


@virtually
async def test_stage_durations_are_recorded_and_running_stages_are_known() -> None:
    place = StageRuns()
    running = asyncio.create_task(run(place, Stage(slow)))
    await asyncio.sleep(1)
    under_way = dict(place.durations.running)
    await running
    for _ in range(MIN_SAMPLES - 1):
        await run(place, Stage(slow))

    now = asyncio.get_running_loop().time()
    assert {"token": RunningStage("review", "slow", 1000.0)} == under_way
    assert {} == place.durations.running
    assert not place.durations.may_finish_by(
        RunningStage("review", "slow", now), now, now + 59
    )
    assert place.durations.may_finish_by(
        RunningStage("review", "slow", now), now, now + 60
    )


@virtually
async def test_a_failure_records_no_stage_duration() -> None:
    place = StageRuns()
    for _ in range(MIN_SAMPLES):
        with pytest.raises(ValueError, match="broken"):
            await run(place, Stage(broken))

    now = asyncio.get_running_loop().time()
    assert {} == place.durations.running
    assert place.durations.may_finish_by(
        RunningStage("review", "broken", now), now, now + 1
    )
