from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from piecework.calls.pause_gate import PauseGate
from piecework.settings import Settings
from piecework_worker.lease import InterruptReason
from piecework_worker.stage_durations import MIN_SAMPLES, RunningStage
from piecework_worker.worker import (
    ACK_FLUSH_S,
    RELEASE_S,
    SHUTDOWN_MARGIN_S,
    Worker,
    finish_or_release,
)
from tests.unit.piecework.store.tables import REF
from tests.unit.workers.on_the_model import worker_services
from tests.unit.workers.virtual_leases import for_ever, new_lease, time, virtually

DRAIN = 20.0


class FakeLease:
    """Work that ends when it is interrupted."""

    def __init__(self) -> None:
        self.told = asyncio.Event()
        self.reasons: list[InterruptReason] = []
        self.gate, self.leaves_doubt = PauseGate(), False
        self.work = self

    def interrupt(self, reason: InterruptReason) -> None:
        self.reasons.append(reason)
        self.told.set()


def worker_with(**mostly_takes: float) -> tuple[Any, dict[str, FakeLease]]:
    """Return a worker with a chunk at each of these stages."""
    leases = {name: FakeLease() for name in mostly_takes}
    services: Any = worker_services(Settings(shutdown_grace_s=DRAIN))
    services.lease_renewer.leases = leases
    known, now = services.stages.durations, time()
    for name, seconds in mostly_takes.items():
        for _ in range(MIN_SAMPLES):
            known.record(RunningStage("review", name, now), now + seconds)
        known.running[name] = RunningStage("review", name, now)
    return Worker(services, asyncio.Event()), leases


async def drained(
    worker: Any, leases: dict[str, FakeLease], on_chunk_offered: float = 99.0
) -> float:
    """Drain a worker whose chunks run for `takes` seconds unless interrupted."""

    async def chunk(name: str) -> None:
        try:
            async with asyncio.timeout(on_chunk_offered):
                await leases[name].told.wait()
        except TimeoutError:
            pass
        worker.services.stages.durations.running.pop(name, None)
        leases.pop(name)

    for name in leases:
        worker.start_task(chunk(name))
    receiving = asyncio.create_task(asyncio.sleep(0))
    began_at = time()
    await finish_or_release(worker, receiving)
    return time() - began_at


@virtually
async def test_a_stop_waits_for_what_ends_in_time() -> None:
    worker, leases = worker_with(quick=5.0)
    lease = leases["quick"]

    assert 5.0 <= await drained(worker, leases, on_chunk_offered=5.0) < 5.2
    assert [] == lease.reasons


@virtually
async def test_a_stop_releases_at_once_what_will_not_end_in_time() -> None:
    worker, leases = worker_with(long=60.0)
    lease = leases["long"]

    assert await drained(worker, leases) < 0.2
    assert [InterruptReason.STOPPING] == lease.reasons


@virtually
async def test_a_stop_releases_last_what_would_leave_an_effect_in_doubt() -> None:
    worker, leases = worker_with(long=60.0)
    leases["long"].leaves_doubt = True

    assert pytest.approx(DRAIN, abs=0.2) == await drained(worker, leases)


@virtually
async def test_a_stop_releases_at_once_what_only_waits_for_its_release() -> None:
    worker, leases = worker_with(pays=5.0)
    lease = leases["pays"]

    async def pay() -> None:
        await asyncio.sleep(3.0)
        with lease.gate.request():
            await lease.gate.wait_for_release()

    paying = asyncio.create_task(pay())
    assert 3.0 <= await drained(worker, leases) < 3.2
    assert [InterruptReason.STOPPING] == lease.reasons
    assert DRAIN - 3.2 < worker.services.calls.release_at - time() <= DRAIN - 3.0
    paying.cancel()


@virtually
async def test_a_chunk_that_does_not_end_as_expected_is_released_at_the_end() -> None:
    worker, leases = worker_with(quick=5.0)
    lease = leases["quick"]

    assert pytest.approx(DRAIN, abs=0.2) == await drained(worker, leases)
    assert [InterruptReason.STOPPING] == lease.reasons


@virtually
async def test_a_next_stage_that_will_not_end_in_time_is_released_at_its_start() -> (
    None
):
    worker, leases = worker_with(quick=5.0, long=60.0)
    lease = leases.pop("long")
    leases = worker.services.lease_renewer.leases = {"token": lease}
    running = worker.services.stages.durations.running
    running.clear()
    running["token"] = RunningStage("review", "quick", time())
    following = RunningStage("review", "long", time() + 5)
    asyncio.get_running_loop().call_later(5, running.__setitem__, "token", following)

    assert 5.0 <= await drained(worker, leases) < 5.2
    assert [InterruptReason.STOPPING] == lease.reasons


@virtually
async def test_a_stop_ends_in_time_even_if_nothing_ends_or_answers() -> None:
    worker, _ = worker_with()
    long_poll = asyncio.create_task(asyncio.sleep(1000.0))
    worker.start_task(asyncio.sleep(1000.0))
    worker.acks = SimpleNamespace(flush=for_ever)
    began_at = time()

    await finish_or_release(worker, long_poll)

    assert DRAIN + RELEASE_S + ACK_FLUSH_S == pytest.approx(time() - began_at)
    assert DRAIN + SHUTDOWN_MARGIN_S > time() - began_at
    assert ["worker.stopping", "acks.failed"] == worker.services.log.names()
    long_poll.cancel()


@virtually
async def test_a_stop_waits_for_the_answer_to_a_poll_as_long_as_its_grace() -> None:
    worker, _ = worker_with()
    long_poll = asyncio.create_task(asyncio.sleep(DRAIN + 0.5))
    await finish_or_release(worker, long_poll)
    assert long_poll.done()


@virtually
async def test_a_claim_after_the_drain_is_released() -> None:
    services = worker_services(Settings(shutdown_grace_s=5.0))
    leases = services.lease_renewer.leases
    worker = Worker(services, asyncio.Event())
    lease = new_lease()

    async def late() -> None:
        await asyncio.sleep(5.5)  # the claim is on its way
        leases["token"] = lease
        async with lease:
            await for_ever()

    worker.start_task(late())
    began_at = time()
    await finish_or_release(worker, asyncio.create_task(asyncio.sleep(0)))

    assert InterruptReason.STOPPING is lease.reason
    assert set() == worker.active_tasks
    assert RELEASE_S > time() - began_at - 5.0


@virtually
async def test_a_stop_sends_the_chunks_that_wait_for_a_slot() -> None:
    worker, leases = worker_with()
    services, job = worker.services, SimpleNamespace(ref=REF.of, queue="")
    chunk = SimpleNamespace(ref=REF, gen=2, retry_at="")
    await services.intake.next_chunks.add(services.rt, job, chunk)
    await drained(worker, leases)
    (sent,) = await services.rt.work.receive(1, of="", wait_s=0, hide_s=30)
    assert (REF, 2) == (sent.message.ref, sent.message.gen)
