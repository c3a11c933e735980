"""Proofs of the third reading: watch, heart, drain, signals, turns that cancel."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from piecework.errors import NewerSchemaError, StoreError
from piecework.model import JobRef, JobStatus
from piecework.ports import CancelRequest
from piecework.pulse import Pulse
from tests.unit.piecework.fakes import Log
from tests.unit.piecework.store.tables import claim
from tests.unit.workers.made_up import LEASE, for_ever, time, virtually
from tests.unit.workers.test_heart import Bench, waits
from workers import __main__ as main
from workers import stop as stopping
from workers.drain import HAND_BACK_S, drain
from workers.ecs.agent import AgentError, ask
from workers.heart import Hold, Reason
from workers.stop import stop_on_signals
from workers.timings import Timings
from workers.watch import Watch
from workers.worker import Worker


class Held:
    """A chunk in hand, of some job."""

    def __init__(self, job: str) -> None:
        self.claim = SimpleNamespace(ref=JobRef("acme", job).chunk(1))
        self.taken_at = 0.0
        self.stopped: list[CancelRequest] = []

    def stop(self, asked: CancelRequest) -> None:
        self.stopped.append(asked)


@pytest.mark.parametrize(
    "error",
    [
        StoreError("slow down", code="aws.service.throttled"),
        NewerSchemaError("it is newer"),
    ],
)
async def test_a_job_that_cannot_be_read_hides_no_cancel_of_another(
    error: StoreError,
) -> None:
    looked: list[bool] = []

    async def read(ref: JobRef) -> Any:
        if ref.job == "first":
            raise error
        return SimpleNamespace(
            status=JobStatus.CANCELLING, cancelled_at="then", undoes=False
        )

    async def look() -> None:
        looked.append(True)

    second = Held("second")
    heart: Any = SimpleNamespace(holds={"a": Held("first"), "b": second}, pulse=Pulse())
    rt: Any = SimpleNamespace(jobs=SimpleNamespace(read=read))
    circuits: Any = SimpleNamespace(untold=False, look=look)
    log: Any = Log()

    with pytest.raises(StoreError) as told:
        await Watch(rt, heart, circuits, log).look()

    assert error is told.value
    assert [CancelRequest("then", undo=False)] == second.stopped
    assert [True] == looked


@virtually
async def test_the_message_of_a_turn_that_ended_during_a_beat_is_not_hidden() -> None:
    bench = Bench()

    async def short(_: Hold) -> None:
        await asyncio.sleep(1.0)

    ending, going_on = bench.take("a", short), bench.take("b", waits)
    bench.claims.replies["b"] = 2.0
    await asyncio.sleep(0)
    await bench.heart.renew_all()

    assert ["hide r-b for 90"] == [s for s in bench.claims.said if "hide" in s]
    going_on.cancel()
    await asyncio.gather(ending, going_on, return_exceptions=True)


@virtually
async def test_a_claim_that_comes_when_the_drain_is_over_is_handed_back() -> None:
    holds: dict[str, Hold] = {}
    station: Any = SimpleNamespace(
        rt=SimpleNamespace(settings=SimpleNamespace(drain_s=5.0)),
        heart=SimpleNamespace(holds=holds),
        under_way={},
        timings=Timings(),
        log=Log(),
    )
    worker = Worker(station, asyncio.Event())
    held = Hold(claim(), "receipt", LEASE, time(), time())

    async def late() -> None:
        await asyncio.sleep(5.5)  # the claim is on its way
        holds["token"] = held
        async with held:
            await for_ever()

    worker.start(late())
    began_at = time()
    await drain(worker, asyncio.create_task(asyncio.sleep(0)))

    assert Reason.STOPPING is held.reason
    assert set() == worker.in_hand
    assert HAND_BACK_S > time() - began_at - 5.0


async def test_the_first_signal_lets_a_worker_that_stops_already_hand_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    loop, stop = asyncio.get_running_loop(), stop_on_signals()
    stop.set()  # as a worker does that is full
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.01)
        assert ([], "SIGTERM") == (ended, stop.signal)

        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.01)
        assert [128 + signal.SIGTERM] == ended
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def test_an_answer_of_the_agent_may_be_nested_as_deep_as_it_likes() -> None:
    async def deep(_: web.Request) -> web.Response:
        return web.Response(text="[" * 60_000)

    app = web.Application()
    app.router.add_get("/task", deep)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        with pytest.raises(AgentError, match="RecursionError"):
            await ask(f"http://127.0.0.1:{port}/task")
    finally:
        await runner.cleanup()


def test_a_worker_that_failed_does_not_wait_for_a_thread_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over, said = threading.Event(), list[Any]()

    def end(code: int) -> None:
        said.append(code)
        over.set()

    async def connected(*_: Any, **__: Any) -> int:
        asyncio.get_running_loop().run_in_executor(None, over.wait, 1.0)
        message = "a loop has ended"
        raise ValueError(message)

    quiet = SimpleNamespace(configure=lambda _: None, guard_process=lambda: None)
    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(stopping, "THREADS_S", 0.01)
    monkeypatch.setattr(sys, "excepthook", lambda _, error, __: said.append(str(error)))
    monkeypatch.setattr(main, "telemetry", quiet)
    monkeypatch.setattr(main, "load_pipelines", lambda _: {})
    monkeypatch.setattr(main, "connected", connected)
    monkeypatch.setattr("structlog.get_logger", Log)

    with pytest.raises(ValueError, match="a loop has ended"):
        main.run([])

    assert ["a loop has ended", 1] == said


def idle_worker() -> tuple[Worker, Log]:
    log = Log()
    rt = SimpleNamespace(settings=SimpleNamespace(concurrency=1))
    station: Any = SimpleNamespace(rt=rt, log=log, breathing=False)
    return Worker(station, asyncio.Event()), log


@virtually
async def test_a_turn_that_cancels_itself_is_told_of() -> None:
    async def turn() -> None:
        forgotten = asyncio.create_task(for_ever())
        forgotten.cancel()
        await forgotten

    worker, log = idle_worker()
    worker.start(turn())
    await asyncio.sleep(1.0)

    assert set() == worker.in_hand
    assert ["worker.turn_failed"] == log.names()


@virtually
async def test_a_turn_that_is_cut_off_is_not_told_of() -> None:
    worker, log = idle_worker()
    worker.start(for_ever())
    await asyncio.sleep(1.0)
    (turn,) = worker.in_hand
    turn.cancel()
    await asyncio.wait([turn])

    assert turn.cancelled()
    assert [] == log.names()
