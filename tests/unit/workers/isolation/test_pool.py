from __future__ import annotations

import asyncio
import errno
import os
import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from piecework.context import Context
from piecework.errors import RemoteError, StoreError, WorkerExhaustedError
from piecework.errors.codes import ErrorClass
from piecework_worker.isolation import pool
from piecework_worker.isolation.messages import Ready, Run, StageResult
from piecework_worker.isolation.pool import Isolation
from piecework_worker.isolation.process import Child, describe_return_code, open_channel
from tests.unit.piecework.fakes import NOW, Clause, Log, context, envelope
from tests.unit.workers.isolation.both_ends import pipeline_of
from tests.unit.workers.virtual_leases import new_lease


async def parse(_: Context[Clause]) -> str:
    return "parsed"


class FakeLine:
    async def receive(self) -> Ready:
        return Ready()


class FakeChild:
    """A process with an identity."""

    def __init__(self, pid: int) -> None:
        self.process = type("Process", (), {"pid": pid})
        self.channel = FakeLine()
        self.alive = True
        self.ended = False
        self.runs = 0

    async def end(self) -> None:
        self.ended = True
        self.alive = False


class FakeSession:
    """Returns the result that the test sets."""

    comes_to: Any = StageResult('"parsed"')
    orders: list[Run]

    def __init__(self, child: FakeChild, *_: Any) -> None:
        self.child = child
        self.attempts = ()

    async def run(self, request: Run) -> StageResult:
        FakeSession.orders.append(request)
        await asyncio.sleep(0)
        if self.comes_to is None:
            await asyncio.Event().wait()
        if isinstance(self.comes_to, Exception):
            raise self.comes_to
        return self.comes_to

    def close(self) -> None: ...


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[FakeChild]:
    """Return the started children in order."""
    found: list[FakeChild] = []

    async def start(*_: Any) -> FakeChild:
        found.append(FakeChild(len(found)))
        return found[-1]

    FakeSession.orders = []
    monkeypatch.setattr(pool, "start", start)
    monkeypatch.setattr(pool, "Session", FakeSession)
    monkeypatch.setattr(FakeSession, "comes_to", StageResult('"parsed"'))
    return found


def isolation(memory_mb: int = 0) -> Isolation:
    return Isolation(["review"], "w", memory_mb, Log())  # type: ignore[arg-type]


async def run(place: Isolation, **facts: Any) -> str:
    pipeline = pipeline_of(parse, **facts)
    ctx = context(pipeline, stage="parse")
    return await place.run(pipeline.stages[0], ctx)


async def test_a_child_that_succeeded_runs_the_next_stage(
    started: list[FakeChild],
) -> None:
    place = isolation()

    assert ['"parsed"'] * 3 == [await run(place) for _ in range(3)]
    assert 1 == len(started)
    clock = FakeSession.orders[0].clock_offset_s + time.time()
    assert clock == pytest.approx(NOW, abs=60)
    await place.close()
    assert started[0].ended


async def test_stages_at_the_same_time_have_a_child_each(
    started: list[FakeChild],
) -> None:
    place = isolation()
    await asyncio.gather(run(place), run(place))

    assert 2 == len(started)


async def test_only_a_few_suspects_run_at_once(
    started: list[FakeChild], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeSession, "comes_to", None)
    place, pipeline = isolation(), pipeline_of(parse)
    ctx, lease = context(pipeline, stage="parse"), new_lease()

    async def run_suspect() -> str:
        return await place.run_suspect(pipeline.stages[0], ctx, waiting=lease.waiting)

    running = [
        asyncio.create_task(run_suspect()) for _ in range(pool.SUSPECTS_AT_ONCE + 2)
    ]
    await asyncio.wait(running, timeout=0.05)
    assert pool.SUSPECTS_AT_ONCE == len(started)
    # Two of them wait. A chunk has one at most: here the waits share a lease.
    assert lease.is_waiting

    running[0].cancel()
    await asyncio.wait(running, timeout=0.05)
    assert pool.SUSPECTS_AT_ONCE + 1 == len(started)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def test_an_idle_child_that_died_is_replaced(
    started: list[FakeChild],
) -> None:
    place = isolation()
    await run(place)
    started[0].alive = False
    await run(place)

    assert 2 == len(started)
    assert started[0].ended


async def test_a_stage_that_failed_leaves_its_child_as_it_was(
    started: list[FakeChild], monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = envelope(code="tool.stock.none")
    monkeypatch.setattr(FakeSession, "comes_to", StageResult(failure=failure))
    place = isolation()

    with pytest.raises(RemoteError) as caught:
        await run(place)
    assert failure == caught.value.envelope
    assert not started[0].ended


async def test_a_child_beyond_its_memory_limit_is_not_reused(
    started: list[FakeChild], monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = envelope(code="runtime.stage.out_of_memory")
    monkeypatch.setattr(FakeSession, "comes_to", StageResult(failure=failure))

    with pytest.raises(RemoteError):
        await run(isolation())
    assert started[0].ended


async def test_a_stage_that_lacks_a_handle_is_at_fault_only_in_a_fresh_child(
    started: list[FakeChild], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, failure = isolation(), envelope(code="runtime.worker.exhausted")
    await run(place)
    monkeypatch.setattr(FakeSession, "comes_to", StageResult(failure=failure))

    with pytest.raises(WorkerExhaustedError):
        await run(place)
    assert started[0].ended
    with pytest.raises(RemoteError):
        await run(place)


@pytest.mark.parametrize(
    "why", [OSError(errno.EMFILE, "none"), BlockingIOError(errno.EAGAIN, "none")]
)
async def test_a_child_that_cannot_be_started_is_no_fault_of_its_stage(
    why: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(*_: Any) -> FakeChild:
        raise why

    monkeypatch.setattr(pool, "start", start)
    with pytest.raises(WorkerExhaustedError) as raised:
        await run(isolation())
    assert "runtime.worker.no_child" == raised.value.code


async def test_a_child_that_dies_before_its_stage_is_no_fault_of_the_stage() -> None:
    place = Isolation(["no_module_of_this_name"], "w", 0, Log())  # type: ignore[arg-type]
    with pytest.raises(WorkerExhaustedError) as raised:
        await run(place)
    assert "ended with exit code 2" in raised.value.message


async def test_a_child_starts_where_the_worker_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "async def parse(ctx): return 'parsed'"
    (tmp_path / "kept_there.py").write_text(
        "from piecework import Pipeline, Stage\nfrom tests.unit.piecework.fakes import "
        f"Clause\n{module}\n"
        "review = Pipeline('review', payload=Clause, stages=[Stage(parse)])\n"
    )
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.syspath_prepend("")
    monkeypatch.chdir(tmp_path)
    place = Isolation(["kept_there"], "w", 0, Log())  # type: ignore[arg-type]
    # A stage of the worker may do this to all that comes after it.
    monkeypatch.chdir("/")
    for name in tuple(os.environ):
        monkeypatch.delenv(name)

    assert '"parsed"' == await run(place)
    await place.close()


async def test_a_child_with_too_much_leftover_memory_is_not_reused(
    started: list[FakeChild], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        FakeSession, "comes_to", StageResult('"parsed"', memory_exceeded=True)
    )

    assert '"parsed"' == await run(isolation())
    assert started[0].ended


async def test_a_child_whose_stage_lost_its_state_is_not_reused(
    started: list[FakeChild], monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = envelope(ErrorClass.STATE, code="tool.session.lost")
    monkeypatch.setattr(FakeSession, "comes_to", StageResult(failure=failure))

    with pytest.raises(RemoteError):
        await run(isolation())
    assert started[0].ended


async def test_a_child_receives_the_variant_of_a_stage_and_its_reason(
    started: list[FakeChild],
) -> None:
    del started
    pipeline = pipeline_of(parse, replan=parse)
    failure = envelope(ErrorClass.SEMANTIC)
    ctx = context(pipeline, stage="parse", failure=failure)
    await isolation().run(pipeline.stages[0], ctx, "replan")

    (request,) = FakeSession.orders
    assert ("replan", failure) == (request.variant, request.failure)


async def test_an_outage_is_raised_as_what_it_is(
    started: list[FakeChild], monkeypatch: pytest.MonkeyPatch
) -> None:
    del started
    failure = envelope(code="aws.service.unavailable")
    monkeypatch.setattr(
        FakeSession, "comes_to", StageResult(failure=failure, outage=True)
    )

    with pytest.raises(StoreError) as caught:
        await run(isolation())
    assert "aws.service.unavailable" == caught.value.code


async def test_a_stage_that_takes_too_long_is_ended_with_its_child(
    started: list[FakeChild], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeSession, "comes_to", None)

    with pytest.raises(TimeoutError):
        await run(isolation(), timeout=0.01)
    assert started[0].ended


@pytest.mark.parametrize(("own", "expected"), [(None, 300), (50, 50), (0, 0)])
async def test_a_stage_says_what_it_may_take_or_the_setting_does(
    started: list[FakeChild], own: int | None, expected: int
) -> None:
    del started
    await run(isolation(300), memory_mb=own)

    assert [expected] == [request.memory_mb for request in FakeSession.orders]


async def test_a_child_receives_all_that_a_stage_may_ask_for(
    started: list[FakeChild],
) -> None:
    del started

    async def first(_: Context[Clause]) -> list[int]:
        return []

    pipeline = pipeline_of(first, parse)
    ctx = context(pipeline, stage="compensate:parse:2", values={"first": [1]})
    await isolation().run(pipeline.stages[1], ctx, "compensate")

    (request,) = FakeSession.orders
    assert ("parse", "compensate", "compensate:parse:2") == (
        request.stage,
        request.variant,
        request.scope,
    )
    assert "{}" == request.payload  # what was never set stays unset
    assert {"first": "[1]"} == request.values


async def test_a_child_with_a_closed_channel_runs_no_stage() -> None:
    ours, theirs = socket.socketpair()
    channel = await open_channel(ours)
    process = SimpleNamespace(returncode=None)  # its death is not known yet
    child = Child(process, channel, None)  # type: ignore[arg-type]
    assert child.alive

    theirs.close()
    assert await channel.receive() is None
    assert not child.alive
    channel.close()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (0, "ended with exit code 0"),
        (3, "ended with exit code 3"),
        (-9, "was killed by SIGKILL"),
        (-11, "was killed by SIGSEGV"),
        (-40, "was killed by signal 40"),
    ],
)
def test_a_death_has_a_name(code: int, said: str) -> None:
    assert said == describe_return_code(code)


async def test_a_child_that_becomes_idle_is_as_good_as_one_that_starts(
    started: list[FakeChild],
) -> None:
    place = isolation()
    idle = await place.acquire_child(pipeline_of(parse).stages[0])
    async with place.starts, place.starts:  # no other child may start now
        waiting = asyncio.create_task(run(place))
        await asyncio.sleep(0)
        place.idle.append(idle)

    assert '"parsed"' == await waiting
    assert [idle] == started
