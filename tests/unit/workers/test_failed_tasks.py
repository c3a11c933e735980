"""A task's failure is logged with its traceback, and affects no other task."""

from __future__ import annotations

import asyncio
import sys
import traceback
from typing import Any

import pytest

from piecework.aws.queue import Delivery, Message, Receipt
from piecework.settings import Settings
from piecework_worker.worker import Worker
from tests.unit.piecework.fakes import Log
from tests.unit.piecework.store.tables import REF
from tests.unit.workers.on_the_model import said_by, worker_services
from tests.unit.workers.virtual_leases import for_ever, time, virtually


def idle_worker() -> tuple[Worker, Log]:
    services = worker_services(Settings(max_chunks=1, shutdown_grace_s=1.0))
    return Worker(services, asyncio.Event()), said_by(services)


class Tracing(Log):
    """A log that keeps the functions in the traceback of what it logs."""

    def __init__(self) -> None:
        super().__init__()
        self.functions: list[str] = []

    def exception(self, event: str, **fields: Any) -> None:
        self.error(event, **fields)
        trace = sys.exc_info()[2]
        self.functions += [frame.name for frame in traceback.extract_tb(trace)]


@virtually
async def test_a_failure_is_logged_with_its_own_traceback() -> None:
    async def fails() -> None:
        await asyncio.sleep(0.5)
        message = "broken"
        raise ValueError(message)

    worker, _ = idle_worker()
    log = worker.services.log = Tracing()  # type: ignore[assignment]
    worker.start_task(fails())
    worker.start_task(asyncio.sleep(2.0))
    await asyncio.sleep(1.0)

    assert 1 == len(worker.active_tasks)
    assert ["worker.execution_failed"] == log.names()
    assert "fails" == log.functions[-1]


async def test_an_error_outside_of_the_reads_of_records_keeps_the_message() -> None:
    worker, _ = idle_worker()
    none: Any = 7  # not a job: `Draws.hint` fails
    worker.services.intake.jobs.remember(REF.of, none, time())
    message = Message.about(REF, 1)
    with pytest.raises(AttributeError, match="'int' object"):
        await worker.handle(Delivery(message, "", Receipt("r"), "id", 1))


@virtually
async def test_a_task_that_cancels_itself_is_logged() -> None:
    async def cancels_itself() -> None:
        forgotten = asyncio.create_task(for_ever())
        forgotten.cancel()
        await forgotten

    worker, log = idle_worker()
    worker.start_task(cancels_itself())
    await asyncio.sleep(1.0)

    assert set() == worker.active_tasks
    assert ["worker.execution_failed"] == log.names()


@virtually
async def test_a_task_that_the_worker_cancels_is_not_logged() -> None:
    worker, log = idle_worker()
    worker.start_task(for_ever())
    await asyncio.sleep(1.0)
    (task,) = worker.active_tasks
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert [] == log.names()
