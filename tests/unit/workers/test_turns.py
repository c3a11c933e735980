"""Work items: a failed one is logged, a cancelled one is not."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from piecework_worker.worker import Worker
from tests.unit.piecework.fakes import Log
from tests.unit.workers.made_up import for_ever, virtually


def idle_worker() -> tuple[Worker, Log]:
    log = Log()
    rt = SimpleNamespace(settings=SimpleNamespace(max_chunks=1))
    services: Any = SimpleNamespace(rt=rt, log=log, intake_paused=False)
    return Worker(services, asyncio.Event()), log


@virtually
async def test_a_work_item_that_cancels_itself_is_logged() -> None:
    async def turn() -> None:
        forgotten = asyncio.create_task(for_ever())
        forgotten.cancel()
        await forgotten

    worker, log = idle_worker()
    worker.start_task(turn())
    await asyncio.sleep(1.0)

    assert set() == worker.active_tasks
    assert ["worker.execution_failed"] == log.names()


@virtually
async def test_a_cancelled_work_item_is_not_logged() -> None:
    worker, log = idle_worker()
    worker.start_task(for_ever())
    await asyncio.sleep(1.0)
    (turn,) = worker.active_tasks
    turn.cancel()
    await asyncio.wait([turn])

    assert turn.cancelled()
    assert [] == log.names()
