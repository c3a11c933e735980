"""A stop releases the active chunks, and nothing keeps the process alive."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from piecework.aws.queue import Message
from piecework.domain import keys
from piecework.domain.refs import ChunkRef
from piecework.settings import Settings
from piecework_worker import stopping
from piecework_worker.acks import Ack, AckBatcher
from piecework_worker.stopping import stop_on_signals
from piecework_worker.worker import Worker
from tests.unit.piecework.fakes import Clause, Log
from tests.unit.workers.ecs_stub import until
from tests.unit.workers.on_the_model import REF, desk
from tests.unit.workers.runs import pipeline
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


async def test_a_join_that_begins_at_a_stop_is_released() -> None:
    here = await desk(pipeline(), Clause())
    await here.execute()
    await here.services.rt.work.delete([here.item.receipt])
    worker = Worker(here.services, asyncio.Event())
    worker.stop.set()
    worker.closing = True

    await worker.start_join(REF.of)

    assert set() == worker.active_tasks
    join = REF.of.chunk(keys.JOIN_CHUNK)
    assert Message.about(join, 1) == await here.message_sent()


async def test_a_worker_that_stops_by_itself_still_releases_after_a_signal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    signals = stop_on_signals(Log())  # type: ignore[arg-type]
    signals.stop.set()  # as a worker does that is full
    try:
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: signals.stop.signal)
        assert ([], "SIGHUP") == (ended, signals.stop.signal)

        os.kill(os.getpid(), signal.SIGTERM)
        await until(lambda: ended)
        assert [128 + signal.SIGTERM] == ended
    finally:
        signals.close()


async def test_what_a_stage_does_to_a_handler_is_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stopping, "KEEP_S", 0.01)
    log = Log()
    signals = stop_on_signals(log)  # type: ignore[arg-type]
    keeping = asyncio.create_task(signals.keep_handlers())
    try:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        await until(lambda: log.said)
        assert [("worker.signal_restored", {"signal": "SIGTERM"})] == log.said

        loop = asyncio.get_running_loop()  # takes the pipe of the signals, too
        loop.add_signal_handler(signal.SIGUSR1, print)
        os.kill(os.getpid(), signal.SIGTERM)
        await until(signals.stop.is_set)
        loop.remove_signal_handler(signal.SIGUSR1)
    finally:
        keeping.cancel()
        signals.close()
    assert "SIGTERM" == signals.stop.signal


#: A process that does something and then ends as a worker does.
LEAVES = """
import asyncio, atexit, os, sys, threading, time
from piecework_worker import process as program
from piecework_worker.stopping import leave

async def hang():
    while True:
        try:
            await asyncio.sleep(60)
        except BaseException:
            continue

async def fails(*_, **__):
    asyncio.create_task(hang())
    threading.Thread(target=time.sleep, args=(60,)).start()
    await asyncio.sleep(0)
    raise ValueError("a loop has ended")

def run(work):
    program.run_with_threads, program.load_pipelines = work, lambda _: {}
    program.run([], queue=[], max_chunks=None, memory_mb=None, reconcile=True)

atexit.register(lambda: os.write(1, b"bye"))
sys.stdout.write("said ")
"""


@pytest.mark.parametrize(
    ("does", "code", "told"),
    [
        ("leave(0)", 0, ""),
        ("run(fails)", 1, "ValueError"),
        ("threading.Thread(target=time.sleep, args=(60,)).start(); leave(8)", 8, ""),
        ("atexit.register(time.sleep, 60); leave(8)", 8, ""),
        ("sys.stdout.close(); os.close(1); os.close(2); leave(8)", 8, ""),
    ],
)
def test_a_process_leaves_with_its_code_whatever_is_left(
    does: str, code: int, told: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAVES + does],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (code, True) == (done.returncode, told in done.stderr)
    assert "said" in done.stdout
