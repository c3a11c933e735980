"""A poll interrupts the chunks of cancelled jobs, and no others."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from piecework.calls.fleet_breaker import BreakerRegistry
from piecework.domain.job import Job
from piecework.domain.protocols import CancelRequest
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.states import JobStatus
from piecework.errors import SchemaTooNewError, StoreError
from piecework.telemetry.health import Liveness
from piecework_worker.cancel_poller import MIN_AGE_S, CancelPoller
from tests.unit.piecework.fakes import Log
from tests.unit.piecework.store.tables import REF
from tests.unit.virtual import run_virtually


class Held:
    def __init__(self, ref: ChunkRef = REF) -> None:
        self.claim = SimpleNamespace(ref=ref)
        self.stopped: list[CancelRequest | None] = []
        self.acquired_at = 0.0

    def request_cancel(self, asked: CancelRequest) -> None:
        self.stopped.append(asked)

    def set_paused(self, *, paused: bool) -> None:
        self.paused = paused


@pytest.mark.parametrize(
    ("status", "stopped"),
    [
        (JobStatus.CANCELLING, [CancelRequest("then", compensate=True)]),
        (JobStatus.RUNNING, []),
        (None, []),
    ],
)
async def test_the_chunks_of_a_cancelled_job_are_interrupted(
    status: JobStatus | None, stopped: list[CancelRequest]
) -> None:
    asked: list[Any] = []

    async def read(ref: Any) -> Any:
        asked.append(ref)
        said = {"status": status, "cancelled_at": "then", "compensates_on_cancel": True}
        return None if status is None else SimpleNamespace(**said)

    leases = [Held(), Held()]
    rt: Any = SimpleNamespace(jobs=SimpleNamespace(read=read))
    lease_renewer: Any = SimpleNamespace(
        leases=dict(enumerate(leases)), liveness=Liveness()
    )
    log: Any = Log()
    breakers = BreakerRegistry(lambda: 0.0, Random(1), log)
    known: list[Any] = []
    poller = CancelPoller(
        rt, lease_renewer, breakers, log, lambda ref, job, _: known.append((ref, job))
    )
    await poller.poll()
    assert [lease.stopped for lease in leases] == [stopped, stopped]
    assert asked == [REF.of]
    assert [(ref, job.status) for ref, job in known] == (
        [] if status is None else [(REF.of, status)]
    )


async def test_a_damaged_cancel_request_interrupts_nothing() -> None:
    row = {"cancelled_at": 7, "cancel_compensate": "no"}
    job = Job(REF.of, JobStatus.CANCELLING, 1, 1, "p", row)

    async def read(_: Any) -> Job:
        return job

    rt: Any = SimpleNamespace(jobs=SimpleNamespace(read=read))
    lease_renewer: Any = SimpleNamespace(leases={"a": Held()}, liveness=Liveness())
    breakers = BreakerRegistry(lambda: 0.0, Random(1), Log())
    await CancelPoller(rt, lease_renewer, breakers, Log()).poll()


@pytest.mark.parametrize(
    ("in_progress", "unwritten", "polls"),
    [(False, False, 0), (True, False, 1), (False, True, 1)],
)
async def test_breakers_are_synced_if_a_chunk_may_call_or_a_change_is_unsent(
    *, in_progress: bool, unwritten: bool, polls: int
) -> None:
    asked: list[str] = []

    async def read(_: Any) -> None:
        asked.append("job")

    async def sync_breakers() -> None:
        asked.append("breakers")

    rt: Any = SimpleNamespace(jobs=SimpleNamespace(read=read))
    leases = {"token": Held()} if in_progress else {}
    lease_renewer: Any = SimpleNamespace(leases=leases, liveness=Liveness())
    breakers: Any = SimpleNamespace(has_pending_writes=unwritten, sync=sync_breakers)
    await CancelPoller(rt, lease_renewer, breakers, Log()).poll()
    assert polls == asked.count("breakers")


@pytest.mark.parametrize(
    ("code", "pauses"),
    [
        ("aws.service.throttled", [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 4.5, 4.05]),
        ("aws.service.unavailable", [0.5] * 8),
    ],
)
def test_a_throttled_poller_polls_less_often_and_recovers_step_by_step(
    code: str, pauses: list[float]
) -> None:
    polls: list[float] = []

    async def read(_: Any) -> None:
        polls.append(asyncio.get_running_loop().time())
        if len(polls) <= 5:
            message = "too many"
            raise StoreError(message, code=code)

    async def watched() -> None:
        settings = SimpleNamespace(lease_s=15.0, cancel_poll_s=0.5)
        rt: Any = SimpleNamespace(jobs=SimpleNamespace(read=read), settings=settings)
        lease_renewer: Any = SimpleNamespace(
            leases={"token": Held()}, liveness=Liveness()
        )
        breakers = BreakerRegistry(lambda: 0.0, Random(1), Log())
        began = asyncio.get_running_loop().time()
        watching = asyncio.create_task(
            CancelPoller(rt, lease_renewer, breakers, Log()).run()
        )
        await asyncio.sleep(sum(pauses) + 0.1)
        watching.cancel()
        gaps = [b - a for a, b in pairwise([began, *polls])]
        assert pauses == pytest.approx(gaps)

    run_virtually(watched())


async def test_the_job_of_a_new_lease_is_not_polled() -> None:
    asked: list[Any] = []

    async def read(ref: Any) -> None:
        asked.append(ref)

    now = asyncio.get_running_loop().time()
    young, older = Held(), Held()
    young.acquired_at, older.acquired_at = now, now - MIN_AGE_S
    rt: Any = SimpleNamespace(jobs=SimpleNamespace(read=read))
    lease_renewer: Any = SimpleNamespace(leases={"token": young}, liveness=Liveness())
    breakers = BreakerRegistry(lambda: 0.0, Random(1), Log())
    await CancelPoller(rt, lease_renewer, breakers, Log()).poll()
    assert [] == asked

    lease_renewer.leases["other"] = older
    await CancelPoller(rt, lease_renewer, breakers, Log()).poll()
    assert [REF.of] == asked


@pytest.mark.parametrize(
    "error",
    [
        StoreError("slow down", code="aws.service.throttled"),
        SchemaTooNewError("it is newer"),
    ],
)
async def test_a_job_that_cannot_be_read_hides_no_cancel_of_another(
    error: StoreError,
) -> None:
    synced: list[bool] = []

    async def read(ref: JobRef) -> Any:
        if ref.job == "first":
            raise error
        return SimpleNamespace(
            status=JobStatus.CANCELLING,
            cancelled_at="then",
            compensates_on_cancel=False,
        )

    async def sync_breakers() -> None:
        synced.append(True)

    first, second = (Held(JobRef("acme", job).chunk(1)) for job in ("first", "second"))
    lease_renewer: Any = SimpleNamespace(
        leases={"a": first, "b": second}, liveness=Liveness()
    )
    rt: Any = SimpleNamespace(jobs=SimpleNamespace(read=read))
    breakers: Any = SimpleNamespace(has_pending_writes=False, sync=sync_breakers)
    log: Any = Log()

    with pytest.raises(StoreError) as told:
        await CancelPoller(rt, lease_renewer, breakers, log).poll()

    assert error is told.value
    assert [CancelRequest("then", compensate=False)] == second.stopped
    assert [True] == synced
