from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.refs import ChunkRef, JobRef
from piecework.errors import SchemaTooNewError, StoreError
from piecework.settings import Settings
from piecework_worker.acks import MAX_BATCH, MAX_REQUESTS, PATIENCE_S, Ack, AckBatcher
from tests.unit.piecework.fakes import Log
from tests.unit.virtual import run_virtually
from tests.unit.workers.virtual_leases import virtually

JOB = JobRef("acme", "job")


@dataclass
class World:
    """Tallies and queue in one: notes what is asked, in order."""

    said: list[str] = field(default_factory=list)
    full: bool = False
    errors: dict[str, Exception] = field(default_factory=dict)

    async def add(self, ref: JobRef, group: int, ended: list[int], chunks: int) -> bool:
        await asyncio.sleep(0)
        self.say("count", f"count {ref.job}/{group}: {ended} of {chunks}")
        return self.full and bool(ended)

    async def delete(self, receipts: list[str]) -> None:
        await asyncio.sleep(0)
        self.say("delete", f"delete {receipts}")

    async def all_ended(self, ref: JobRef) -> None:
        self.say("join", f"join {ref.job}")

    def say(self, what: str, said: str) -> None:
        if what in self.errors:
            raise self.errors[what]
        self.said.append(said)


def acks(world: World, *, idle: bool = False, ack_batch_s: float = 0.05) -> AckBatcher:
    rt: Any = SimpleNamespace(
        tallies=world, work=world, settings=Settings(ack_batch_s=ack_batch_s)
    )
    return AckBatcher(rt, lambda: idle, world.all_ended, Log())  # type: ignore[arg-type]


def ack(chunk: int, job: str = "job", receipt: str | None = "r") -> Ack:
    receipt = f"{receipt}{chunk}" if receipt else None
    return Ack(ChunkRef("acme", job, chunk), 300, receipt)


async def flushed(world: World, *some: Ack) -> AckBatcher:
    one = acks(world)
    for each in some:
        one.add(each)
    await one.flush()
    return one


async def test_a_chunk_is_counted_before_its_message_is_deleted() -> None:
    world = World()
    await flushed(world, ack(3))
    assert world.said == ["count job/0: [3] of 300", "delete ['r3']"]


async def test_chunks_of_one_group_share_the_requests() -> None:
    world = World()
    await flushed(world, ack(3), ack(4), ack(5))
    assert world.said == ["count job/0: [3, 4, 5] of 300", "delete ['r3', 'r4', 'r5']"]


async def test_groups_and_jobs_are_counted_apart() -> None:
    world = World()
    await flushed(world, ack(3), ack(256), ack(3, "other"))
    assert sorted(world.said[:3]) == [
        "count job/0: [3] of 300",
        "count job/1: [256] of 300",
        "count other/0: [3] of 300",
    ]


async def test_the_last_chunk_starts_the_join_before_its_message_is_deleted() -> None:
    world = World(full=True)
    await flushed(world, ack(3))
    assert world.said == ["count job/0: [3] of 300", "join job", "delete ['r3']"]


async def test_the_join_itself_is_not_counted() -> None:
    world = World(full=True)
    await flushed(world, ack(keys.JOIN_CHUNK))
    assert world.said == ["count job/0: [] of 300", "delete ['r-1']"]


async def test_what_came_without_a_message_deletes_none() -> None:
    world = World()
    await flushed(world, ack(3, receipt=None), ack(4))
    assert world.said[-1] == "delete ['r4']"


async def test_messages_that_no_chunk_needs_share_a_request_and_are_not_counted() -> (
    None
):
    world = World()
    one = acks(world)
    for receipt in ("a", "b"):
        one.delete(receipt)
    await one.flush()
    assert world.said == ["delete ['a', 'b']"]


async def test_a_job_that_is_for_newer_workers_to_end_keeps_no_message() -> None:
    world = World(full=True, errors={"join": SchemaTooNewError("it is newer")})
    await flushed(world, ack(3))
    assert world.said == ["count job/0: [3] of 300", "delete ['r3']"]


@pytest.mark.parametrize("what", ["count", "join"])
async def test_a_count_or_a_join_that_fails_keeps_the_message(what: str) -> None:
    world = World(full=True, errors={what: StoreError("gone")})
    one = await flushed(world, ack(3))
    assert not [said for said in world.said if said.startswith("delete")]
    assert one.log.names() == ["acks.failed"]  # type: ignore[attr-defined]


async def test_one_group_that_fails_does_not_hold_up_another() -> None:
    world = World()
    broken = World(errors={"count": StoreError("gone")})

    async def add(ref: JobRef, *rest: Any) -> bool:
        return await (broken if ref.job == "other" else world).add(ref, *rest)

    one = acks(world)
    one.rt.tallies = SimpleNamespace(add=add)  # type: ignore[misc,assignment]
    one.add(ack(3, "other"))
    one.add(ack(4))
    await one.flush()
    assert world.said == ["count job/0: [4] of 300", "delete ['r4']"]


async def test_nothing_to_count_is_no_request() -> None:
    world = World()
    await flushed(world)
    assert world.said == []


async def test_what_was_counted_is_not_counted_again() -> None:
    world = World()
    one = await flushed(world, ack(3))
    await one.flush()
    assert len(world.said) == 2


def counted_at(*adds: float, idle: bool = False) -> list[float]:
    """Add chunks at the given moments; return when requests were sent."""
    moments: list[float] = []

    async def main() -> None:
        world = World()
        loop = asyncio.get_running_loop()
        began = loop.time()
        one = acks(world, idle=idle)
        running = asyncio.create_task(one.run())
        for number, at in enumerate(adds):
            loop.call_at(began + at, one.add, ack(number))
        for tick in range(100):
            before = len(world.said)
            await asyncio.sleep(0.01)
            if len(world.said) > before:
                moments.append(round((tick + 1) * 0.01, 3))
        running.cancel()

    run_virtually(main())
    return moments


def test_chunks_wait_for_company_for_the_linger() -> None:
    (moment,) = counted_at(0.1, 0.12)
    assert 0.15 <= moment <= 0.17


def test_an_idle_worker_does_not_wait() -> None:
    (moment,) = counted_at(0.1, idle=True)
    assert 0.1 <= moment <= 0.12


def test_enough_chunks_do_not_wait() -> None:
    (moment,) = counted_at(*[0.1] * MAX_BATCH)
    assert 0.1 <= moment <= 0.12


def test_later_chunks_are_counted_later() -> None:
    assert len(counted_at(0.1, 0.5)) == 2


@dataclass
class SlowJoin(World):
    """The last snapshot of a job takes very long."""

    full: bool = True

    async def all_ended(self, ref: JobRef) -> None:
        await asyncio.sleep(0.0 if ref.job == "other" else 60.0)
        self.say("join", f"join {ref.job}")


@virtually
async def test_what_ends_next_does_not_wait_long_for_the_end_of_another_job() -> None:
    world = SlowJoin()
    one = acks(world)
    running = asyncio.create_task(one.run())
    one.add(ack(1))
    await asyncio.sleep(0.1)
    one.add(ack(2, "other"))
    await asyncio.sleep(PATIENCE_S + 0.1)

    assert "delete ['r2']" == world.said[-1]
    assert "delete ['r1']" not in world.said
    running.cancel()


@virtually
async def test_a_flush_waits_for_the_requests_in_flight() -> None:
    world = SlowJoin()
    one = acks(world)
    running = asyncio.create_task(one.run())
    one.add(ack(1))
    await asyncio.sleep(1.0)
    await one.flush()

    assert ["count job/0: [1] of 300", "join job", "delete ['r1']"] == world.said
    running.cancel()


@virtually
async def test_the_requests_in_flight_are_limited() -> None:
    world = SlowJoin()
    one = acks(world)
    running = asyncio.create_task(one.run())
    for chunk in range(MAX_REQUESTS + 1):
        one.add(ack(chunk))
        await asyncio.sleep(2 * PATIENCE_S)

    assert MAX_REQUESTS == len(world.said)
    running.cancel()
    await asyncio.wait([running])
    assert not one._requests


@virtually
async def test_the_first_batch_gathers_chunks_as_each_later_one_does() -> None:
    world = World()
    one = acks(world, ack_batch_s=5.0)
    running = asyncio.create_task(one.run())
    for chunk in (3, 4):
        await asyncio.sleep(4.0)
        one.add(ack(chunk))
    await asyncio.sleep(4.0)
    running.cancel()
    assert world.said == ["count job/0: [3, 4] of 300", "delete ['r3', 'r4']"]
