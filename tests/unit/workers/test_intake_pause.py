"""What a worker on ECS runs around an intake pause, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from piecework.domain.refs import JobRef
from piecework.settings import Settings
from piecework_worker import ecs
from piecework_worker.ecs import (
    IDLE_S,
    PAUSE_IDLE_S,
    POLL_S,
    UNPROTECTED_S,
    AgentError,
    Protection,
    ProtectionPolicy,
)
from piecework_worker.receiver import GATHER_S
from piecework_worker.worker import Worker
from tests.unit.piecework.fakes import Log
from tests.unit.virtual import run_virtually
from tests.unit.workers.on_the_model import worker_services
from tests.unit.workers.virtual_leases import time, virtually

BREATH_S = 100.0
RECEIVE_S = 5.0
CHUNK_S = 30.0
REF = JobRef("acme", "j").chunk(0)


@dataclass
class Aws:
    """A queue that eventually has a message, and the ECS agent."""

    polls: list[float] = field(default_factory=list)
    wishes: list[tuple[float, bool]] = field(default_factory=list)
    #: When chunks were begun, and until when.
    chunks: list[tuple[float, float]] = field(default_factory=list)
    refuses: bool = False
    poll_s: float = RECEIVE_S

    async def receive(self, most: int, **_: Any) -> list[Any]:
        del most
        self.polls.append(time())
        await asyncio.sleep(self.poll_s)
        return [SimpleNamespace(receipt="receipt")]

    async def hide(self, receipts: list[str], seconds: float) -> None:
        del receipts, seconds

    async def request(self, url: str, put: dict[str, Any]) -> None:
        del url
        if self.refuses:
            raise AgentError
        self.wishes.append((time(), bool(put["ProtectionEnabled"])))

    @property
    def breath(self) -> float:
        """When the first pause began."""
        return self.wishes[0][0] + BREATH_S

    @property
    def let_go(self) -> float:
        """When protection was first given back."""
        return next(at for at, on in self.wishes if not on)


class Busy(Worker):
    """A worker whose chunks only wait for a while."""

    aws: Aws

    async def handle(self, delivery: Any) -> None:
        begun, token = time(), f"token {time()}"
        self.services.lease_renewer.leases[token] = delivery
        await asyncio.sleep(CHUNK_S)
        del self.services.lease_renewer.leases[token]
        self.aws.chunks.append((begun, time()))


@asynccontextmanager
async def working(aws: Aws, agent: str = "http://agent") -> AsyncIterator[Busy]:
    """Receive with protection; at the end, a paused worker stops at once."""
    stop = asyncio.Event()
    worker = Busy(worker_services(Settings(max_chunks=2), work=aws), stop)
    worker.aws = aws
    guard = Protection(agent, worker, Log(), ProtectionPolicy(BREATH_S))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ecs, "request", aws.request)
        tasks = [
            asyncio.create_task(w) for w in (worker.receiver.run(), guard.run(stop))
        ]
        yield worker
        stop.set()
        worker.receiver.slot_freed.set()
        await asyncio.gather(*tasks, *worker.active_tasks)


@virtually
async def test_during_a_pause_nothing_is_received_and_afterwards_work_goes_on() -> None:
    aws = Aws()
    async with working(aws):
        await asyncio.sleep(4 * BREATH_S)

    breath, resumed = aws.breath, aws.let_go + UNPROTECTED_S
    assert [] == [at for at in aws.polls if breath + 1 < at < resumed]
    assert [] == [
        begun for begun, _ in aws.chunks if breath + RECEIVE_S < begun < resumed
    ]
    assert max(end for begun, end in aws.chunks if begun < resumed) < aws.let_go
    assert aws.let_go <= breath + RECEIVE_S + CHUNK_S + PAUSE_IDLE_S + 2
    again = next(at for at, on in aws.wishes if on and at > aws.let_go)
    assert again < min(at for at in aws.polls if at > resumed) < again + 2


async def worked(aws: Aws) -> None:
    async with working(aws):
        await asyncio.sleep(10 * BREATH_S)


@pytest.mark.parametrize("poll_s", [RECEIVE_S, IDLE_S - 1, CHUNK_S + IDLE_S / 2])
def test_no_chunk_runs_unprotected_not_even_from_a_poll_in_flight(
    poll_s: float,
) -> None:
    aws = Aws(poll_s=poll_s)
    run_virtually(worked(aws))

    gaps = [
        (off, on) for (off, was), (on, now) in pairwise(aws.wishes) if now and not was
    ]
    assert len(gaps) > 2
    for off, on in gaps:
        assert [] == [c for c in aws.chunks if c[0] < on - POLL_S and c[1] > off]


@virtually
async def test_no_poll_starts_when_a_pause_begins_during_a_wait_for_slots() -> None:
    aws = Aws()
    async with working(aws) as worker:
        worker.start_task(asyncio.sleep(CHUNK_S))
        await asyncio.sleep(GATHER_S / 2)
        worker.pause_intake(on=True)
        await asyncio.sleep(GATHER_S)
        assert [] == aws.polls


@virtually
async def test_work_goes_on_if_protection_fails_permanently() -> None:
    aws = Aws()
    async with working(aws) as worker:
        guard = Protection("http://agent", worker, Log(), ProtectionPolicy(0.0))
        guard.policy.gap_ends_at = time() + 60
        running = asyncio.create_task(guard.run(asyncio.Event()))
        await asyncio.sleep(0)
        assert worker.receiver.paused
        running.cancel()
        await asyncio.wait([running])
        assert not worker.receiver.paused


@virtually
async def test_a_paused_or_reserved_worker_takes_no_chunk_of_a_reconciler() -> None:
    async with working(Aws()) as worker:
        worker.pause_intake(on=True)
        assert worker.receiver.is_full()
        assert not await worker.offer_chunk(REF, 1)
        worker.pause_intake(on=False)
        worker.receiver.reserved_slots = 0
        assert not worker.receiver.is_full()
        worker.receiver.reserved_slots = worker.services.rt.settings.max_chunks
        assert worker.receiver.is_full()


@virtually
async def test_a_paused_worker_is_not_expected_to_receive() -> None:
    aws = Aws()
    async with working(aws) as worker:
        await asyncio.sleep(BREATH_S + 3 * RECEIVE_S)
        assert aws.breath + RECEIVE_S < time() < aws.breath + CHUNK_S
        assert worker.receiver.paused
        assert {} == worker.services.liveness.due


@virtually
async def test_a_stop_during_a_pause_is_immediate() -> None:
    aws = Aws()
    async with working(aws):
        while not aws.wishes or aws.wishes[-1][1]:  # noqa: ASYNC110 -- it sets no event
            await asyncio.sleep(1)
        stopped_at, polls = time(), len(aws.polls)

    assert stopped_at == time()
    assert polls == len(aws.polls)


@virtually
async def test_an_agent_that_refuses_everything_stops_no_work() -> None:
    aws = Aws(refuses=True)
    async with working(aws) as worker:
        await asyncio.sleep(3 * BREATH_S)
        assert not worker.receiver.paused

    assert len(aws.chunks) > 3 * BREATH_S / CHUNK_S


@virtually
async def test_outside_of_ecs_there_is_no_pause() -> None:
    aws = Aws()
    async with working(aws, agent="") as worker:
        await asyncio.sleep(3 * BREATH_S)
        assert not worker.receiver.paused

    assert [] == aws.wishes
    assert len(aws.chunks) > 3 * BREATH_S / CHUNK_S
