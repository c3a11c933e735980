"""A stop releases the active chunks, and nothing keeps the process alive."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.model import ChunkRef, JobRef
from piecework.settings import Settings
from piecework_worker import __main__ as main
from piecework_worker import shutdown as stopping
from piecework_worker.acks import Ack, AckBatcher
from piecework_worker.next_chunks import NextChunks
from piecework_worker.shutdown import stop_on_signals
from piecework_worker.worker import Worker
from tests.unit.piecework.fakes import Log
from tests.unit.workers.virtual_leases import for_ever, virtually


@virtually
async def test_a_flush_waits_for_the_request_in_flight() -> None:
    deleted: list[str] = []

    async def add(*_: Any) -> bool:
        await asyncio.sleep(1.0)
        return False

    async def delete(receipts: list[str]) -> None:
        deleted.extend(receipts)

    rt: Any = SimpleNamespace(
        tallies=SimpleNamespace(add=add),
        work=SimpleNamespace(delete=delete),
        settings=Settings(ack_batch_s=0.01),
    )
    acks = AckBatcher(rt, lambda: True, for_ever, Log())  # type: ignore[arg-type]
    running = asyncio.create_task(acks.run())
    acks.add(Ack(ChunkRef("acme", "job", 1), 3, "receipt"))
    await asyncio.sleep(0.5)

    await acks.flush()  # as a stopping worker does, before it cuts the loop off
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert ["receipt"] == deleted


def stopping_worker(sent: list[Any]) -> Worker:
    async def send(messages: list[Any], **_: Any) -> int:
        sent.extend(messages)
        return len(messages)

    job: Any = SimpleNamespace(
        ref=JobRef("acme", "job"), chunks=1, gen=1, has_notify_hook=False, queue=""
    )
    rt = SimpleNamespace(
        settings=Settings(),
        jobs=SimpleNamespace(read=lambda _: answered(job)),
        work=SimpleNamespace(send=send),
    )
    services: Any = SimpleNamespace(
        next_chunks=NextChunks(), queues=[""], rt=rt, log=Log(), pipelines={}
    )
    return Worker(services, asyncio.Event())


async def answered(what: Any) -> Any:
    return what


async def test_a_join_that_begins_at_a_stop_is_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[Any] = []
    worker = stopping_worker(sent)
    worker.stop.set()
    worker.closing = True
    join = ChunkRef("acme", "job", keys.JOIN_CHUNK)
    monkeypatch.setattr(
        "piecework_worker.worker.end_cancelled", lambda *_: answered(None)
    )
    monkeypatch.setattr(
        "piecework_worker.worker.start_join", lambda *_: answered((join, 1))
    )
    worker.services.log = Log()  # type: ignore[assignment]
    worker.services.log.bind = lambda **_: Log()  # type: ignore[assignment,method-assign]

    await worker.start_join(JobRef("acme", "job"))

    assert set() == worker.active_tasks
    assert [join] == [message.ref for message in sent]


async def test_a_worker_that_stops_by_itself_still_releases_after_a_signal(
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
    monkeypatch.setattr(main, "run_with_threads", connected)
    monkeypatch.setattr("structlog.get_logger", Log)

    with pytest.raises(ValueError, match="a loop has ended"):
        main.run([], queue=[], max_chunks=None, memory_mb=None, reconcile=True)

    assert ["a loop has ended", 1] == said
