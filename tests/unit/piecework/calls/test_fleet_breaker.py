"""The breakers of several processes, alone and synchronised by one record.

The tests are in one file, because all use the fleet of its `World`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from piecework.calls.fleet_breaker import (
    SNAPSHOT_TTL_S,
    BreakerRegistry,
    BreakerSnapshot,
)
from piecework.dependency import Dependency
from piecework.errors import PermanentError, TransientError
from piecework.errors.classify import classify
from piecework.resilience.breaker import (
    OPEN_CODE,
    PROBE_RETRY_S,
    BreakerPhase,
    CircuitBreaker,
    Health,
    Permit,
    Rejected,
    breaker_open_error,
)
from tests.unit.piecework.fakes import Log
from tests.unit.piecework.fleet_record import MemoryRecord

RULES = CircuitBreaker(minimum_calls=2, window_calls=4, open_s=30.0)
MODEL = Dependency("model", breaker=RULES, timeout=10.0)
TOOL = Dependency("tool", breaker=RULES, timeout=10.0)


@dataclass
class World:
    """A clock, a record, and processes."""

    now: float = 1000.0
    record: MemoryRecord = field(init=False)
    made: int = 0

    def __post_init__(self) -> None:
        self.record = MemoryRecord(self.clock)

    def clock(self) -> float:
        return self.now

    def process(self, *, alone: bool = False) -> BreakerRegistry:
        self.made += 1
        record = None if alone else self.record
        return BreakerRegistry(self.clock, Random(self.made), Log(), record)

    @property
    def row(self) -> BreakerSnapshot:
        return self.record.rows.get("model", BreakerSnapshot())


@pytest.fixture
def world() -> World:
    return World()


async def call(
    process: BreakerRegistry, error: BaseException | None = None, on: Dependency = MODEL
) -> None:
    permit = await request_permit(process, on)
    await asyncio.sleep(0)
    end(process, permit, error, on)
    if error is not None:
        raise error


async def request_permit(
    process: BreakerRegistry, on: Dependency = MODEL
) -> Permit | None:
    permit = await process.request_permit(on)
    if isinstance(permit, Rejected):
        raise breaker_open_error(on.name, permit.seconds)
    return permit


def end(
    process: BreakerRegistry,
    permit: Permit | None,
    error: BaseException | None = None,
    on: Dependency = MODEL,
) -> None:
    if permit is None or on.breaker is None:
        return
    failure = classify(error) if isinstance(error, Exception) else None
    health = Health.SUCCESS if error is None else Health.UNKNOWN
    if failure is not None:
        health = on.breaker.health(failure)
    process.record_end(on, permit, health, failure)


async def fails(process: BreakerRegistry, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(TransientError) as raised:
            await call(process, TransientError("down", code="tool.model.down"))
        assert raised.value.code == "tool.model.down"


async def refused(process: BreakerRegistry) -> float:
    with pytest.raises(TransientError) as raised:
        await call(process)
    assert (OPEN_CODE, "model") == (
        raised.value.code,
        raised.value.facts["dependency"],
    )
    assert raised.value.retry_after is not None
    return raised.value.retry_after


def state(process: BreakerRegistry) -> BreakerPhase:
    return process.by_name["model"].state.phase


async def test_a_dependency_without_a_breaker_is_always_called(world: World) -> None:
    one, bold = world.process(), Dependency("model", breaker=None)
    await one.sync()
    for _ in range(30):
        with pytest.raises(TransientError):
            await call(one, TransientError("down"), bold)
    assert [] == world.record.asked
    await one.sync()  # it reads the pauses, too
    assert (["read_all"], {"model"}) == (world.record.asked, one.called)


async def test_an_open_breaker_makes_no_call_and_says_for_how_long(
    world: World,
) -> None:
    one = world.process(alone=True)
    await fails(one, 2)
    world.now += 10
    assert 20.0 == await refused(one)
    assert 20.0 == one.rejected_for_s(MODEL.name)


async def test_a_process_shares_all_its_breakers(world: World) -> None:
    one, other, both = world.process(), world.process(), (MODEL, TOOL)
    for on in both:
        await call(other, on=on)
    for on in both:
        for _ in range(2):
            with pytest.raises(TransientError):
                await call(one, TransientError("down"), on)
        assert one.has_pending_writes
        await one.sync()
        assert not one.has_pending_writes
    world.now += 2 * SNAPSHOT_TTL_S
    for on in both:
        assert isinstance(await other.request_permit(on), Rejected)


async def test_a_breaker_that_one_process_opens_stops_all_others(world: World) -> None:
    one, two = world.process(), world.process()
    await call(two)
    await fails(one, 2)
    await one.sync()
    await two.sync()
    assert 30.0 == await refused(two)
    assert 30.0 == await refused(world.process())


async def test_a_call_costs_no_request_while_the_record_was_read_lately(
    world: World,
) -> None:
    one = world.process()
    for _ in range(10):
        await call(one)
    assert ["read_all"] == world.record.asked
    world.now += SNAPSHOT_TTL_S + 0.1
    await asyncio.gather(*(call(one) for _ in range(10)))
    assert ["read_all", "read_all"] == world.record.asked


async def test_a_process_without_calls_does_not_read_the_record(world: World) -> None:
    one = world.process()
    await one.sync()
    assert [] == world.record.asked


async def test_one_process_of_the_fleet_probes_and_its_answer_closes_for_all(
    world: World,
) -> None:
    one, two = world.process(), world.process()
    await fails(one, 2)
    await one.sync()
    world.now += 30
    permit = await request_permit(one)
    assert PROBE_RETRY_S == await refused(two)
    assert PROBE_RETRY_S == await refused(one)
    end(one, permit)
    assert (BreakerPhase.CLOSED, BreakerPhase.OPEN) == (state(one), state(two))
    await one.sync()
    await two.sync()
    await call(two)
    assert BreakerSnapshot(2) == world.row


async def test_a_probe_that_failed_keeps_the_fleet_out_for_longer(
    world: World,
) -> None:
    one, two = world.process(), world.process()
    await fails(one, 2)
    await one.sync()
    world.now += 30
    await fails(one)
    await one.sync()
    assert (2, 1) == (world.row.gen, world.row.failed_probes)
    assert 30 <= await refused(two) <= 60


async def test_a_probe_that_was_cut_off_is_released(world: World) -> None:
    one, two = world.process(), world.process()
    await fails(one, 2)
    await one.sync()
    world.now += 30
    with pytest.raises(asyncio.CancelledError):
        await call(one, asyncio.CancelledError())
    assert one.has_pending_writes
    assert one.changed.is_set()
    assert PROBE_RETRY_S == await refused(two)
    await one.sync()
    world.now += PROBE_RETRY_S
    await two.sync()
    await call(two)
    assert BreakerPhase.CLOSED is state(two)


async def test_a_probe_of_a_worker_that_died_is_lost_after_its_time(
    world: World,
) -> None:
    one, two = world.process(), world.process()
    await fails(one, 2)
    await one.sync()
    world.now += 30
    lost = await request_permit(one)
    world.now += MODEL.timeout
    await refused(two)
    world.now += 6
    await call(two)
    assert BreakerPhase.CLOSED is state(two)
    end(one, lost, TransientError("late"))
    await two.sync()
    await one.sync()
    assert (BreakerPhase.CLOSED, BreakerPhase.CLOSED) == (world.row.phase, state(one))


async def test_two_processes_in_the_same_outage_open_it_once(
    world: World,
) -> None:
    one, two = world.process(), world.process()
    await fails(one, 2)
    await fails(two, 2)
    world.now += 1
    await one.sync()
    await two.sync()
    assert 1 == world.row.gen
    assert 29.0 == await refused(two)


async def test_a_write_of_an_earlier_generation_does_not_open_it(world: World) -> None:
    one, slow = world.process(), world.process()
    await call(slow)
    await fails(one, 2)
    await one.sync()
    world.now += 30
    await call(one)
    await one.sync()
    slow._read_at = world.now
    await fails(slow, 3)
    assert BreakerPhase.OPEN is state(slow)
    await slow.sync()
    assert (BreakerPhase.CLOSED, BreakerPhase.CLOSED) == (state(slow), world.row.phase)


async def test_without_the_record_each_process_decides_by_its_own_calls(
    world: World,
) -> None:
    one, two = world.process(), world.process()
    world.record.reachable = False
    await call(two)
    await fails(one, 2)
    await one.sync()
    await refused(one)
    await call(two)
    world.now += 30
    await call(one)
    assert BreakerPhase.CLOSED is state(one)


async def test_a_change_made_without_the_record_is_written_once_it_is_reachable(
    world: World,
) -> None:
    one = world.process()
    world.record.reachable = False
    await fails(one, 2)
    await one.sync()
    assert one.has_pending_writes
    world.record.reachable = True
    await one.sync()
    assert not one.has_pending_writes
    assert (1, BreakerPhase.OPEN) == (world.row.gen, world.row.phase)


async def test_a_probe_made_alone_says_nothing_against_the_record(
    world: World,
) -> None:
    one, two = world.process(), world.process()
    await fails(one, 2)
    await one.sync()
    await refused(two)
    world.record.reachable = False
    world.now += 30
    await call(one)
    assert BreakerPhase.CLOSED is state(one)
    world.record.reachable = True
    await call(two)
    await two.sync()
    await one.sync()
    assert (BreakerPhase.CLOSED, 2) == (world.row.phase, world.row.gen)
    assert BreakerPhase.CLOSED is state(one)


async def test_a_record_that_was_deleted_is_made_anew(world: World) -> None:
    one = world.process()
    await fails(one, 2)
    await one.sync()
    world.record.rows.clear()
    world.now += 30
    await one.sync()
    await call(one)
    await fails(one, 3)
    await one.sync()
    assert BreakerPhase.OPEN is world.row.phase


async def test_a_record_that_hangs_holds_a_call_up_for_a_moment_only(
    world: World,
) -> None:
    one = world.process()

    async def hang() -> Any:
        await asyncio.Event().wait()

    world.record.read_all = hang  # type: ignore[method-assign]
    import piecework.calls.fleet_breaker

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(piecework.calls.fleet_breaker, "RECORD_TIMEOUT_S", 0.001)
        await call(one)
    await call(one)


async def test_opening_and_closing_emit_one_event_each(world: World) -> None:
    one, log = world.process(), Log()
    one.log = log
    await fails(one, 2)
    world.now += 30
    with pytest.raises(PermanentError):
        await call(one, PermanentError("no", http_status=404))
    told = [(name, fields.get("error_code")) for name, fields in log.said]
    assert [("breaker.opened", "tool.model.down"), ("breaker.closed", None)] == told


async def test_a_dependency_that_is_met_during_a_look_does_not_disturb_it(
    world: World,
) -> None:
    one = world.process()
    await fails(one, 2)
    met = call(one, on=Dependency("other", breaker=RULES))
    await asyncio.gather(one.sync(), met)
    assert BreakerPhase.OPEN is world.row.phase


async def test_a_dependency_that_is_met_after_the_look_is_as_it_was_read(
    world: World,
) -> None:
    one, two = world.process(), world.process()
    await fails(one, 2)
    await one.sync()
    await call(two, on=Dependency("other", breaker=RULES))
    assert 30.0 == await refused(two)


async def test_all_calls_that_wait_for_the_record_continue_after_one_read(
    world: World,
) -> None:
    one = world.process()
    rounds = 0

    async def count() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await asyncio.gather(*(call(one) for _ in range(100)))
    counting.cancel()
    assert ["read_all"] == world.record.asked
    assert rounds < 10


async def test_a_call_cut_off_while_reading_leaves_the_read_to_the_next(
    world: World,
) -> None:
    one = world.process()
    first, second = (asyncio.create_task(call(one)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert ["read_all", "read_all"] == world.record.asked


async def test_a_prefetch_reads_the_record_before_the_calls(world: World) -> None:
    one = world.process()
    one.prefetch()
    await asyncio.sleep(0)
    assert ["read_all"] == world.record.asked
    await call(one)
    one.prefetch()
    await asyncio.sleep(0)
    assert ["read_all"] == world.record.asked
    world.now += SNAPSHOT_TTL_S + 0.1
    one.prefetch()
    one.prefetch()
    await asyncio.gather(*(call(one) for _ in range(10)))
    assert ["read_all", "read_all"] == world.record.asked


async def test_a_process_that_never_calls_reads_the_record_once(world: World) -> None:
    one, alone = world.process(), world.process(alone=True)
    for _ in range(3):
        one.prefetch()
        alone.prefetch()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        world.now += SNAPSHOT_TTL_S + 0.1
    assert ["read_all"] == world.record.asked


async def test_a_call_meets_what_kept_the_record_from_being_read_before(
    world: World,
) -> None:
    one = world.process()

    async def spoilt() -> Any:
        raise PermanentError("no", code="runtime.record.unreadable")

    world.record.read_all = spoilt  # type: ignore[method-assign]
    one.prefetch()
    await asyncio.sleep(0)
    with pytest.raises(PermanentError):
        await call(one)


async def test_a_call_that_is_cut_off_as_it_takes_the_probe_gives_it_back(
    world: World,
) -> None:
    one, another = world.process(), world.process()
    await fails(one, 2)
    await one.sync()
    world.now += RULES.open_s + SNAPSHOT_TTL_S + 1
    took = world.record.take_probe

    async def cut_off(*asked: Any) -> BreakerSnapshot | None:
        await took(*asked)
        raise asyncio.CancelledError

    world.record.take_probe = cut_off  # type: ignore[assignment,method-assign]
    with pytest.raises(asyncio.CancelledError):
        await call(one)
    world.record.take_probe = took  # type: ignore[method-assign]

    assert one.has_pending_writes
    await one.sync()
    await call(another)
    assert BreakerPhase.CLOSED == another.by_name["model"].state.phase
