"""The life of one chunk: a true worker on the simulated AWS, and what comes of it.

The pipeline has two stages; the first one has a compensation. A row says what the
second stage and the compensation do in each of their runs.

The file is long, because each life is one row of a table.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import (
    Context,
    Dependency,
    Effect,
    PermanentError,
    Pipeline,
    Stage,
    TransientError,
)
from piecework.aws.payloads import PayloadRef
from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.claim import MAX_RECOVERIES
from piecework.errors import StoreError
from piecework_orchestrator.operate.cancel import cancel
from piecework_simulation.engine.process import PROCESS
from tests.unit.orchestrator.simulated import REF, Simulated, simulate

LEASE_S, STALL_S, RUNTIME_S = 20.0, 60.0, 120.0
RETRY_S = 30.0
LOST = "runtime.worker.lost"
CANCEL = "job.cancel.requested"
NO, LATER = "tool.flight.none", "tool.flight.later"
ERRORS: dict[str, BaseException] = {
    "refuse": PermanentError("no", code=NO),
    "fail": TransientError("later", code=LATER, retry_after=RETRY_S),
    "store": StoreError("gone", code="aws.service.throttled"),
    "cancel": asyncio.CancelledError(),
}
Act = Callable[[Simulated, "Trip"], Awaitable[None]]


desk = Dependency("desk")
fax = Dependency("fax", effect=Effect.NON_IDEMPOTENT)


async def look(number: int, run: int, *, idempotency_key: str) -> None:
    """Make progress."""


async def send(page: str, *, idempotency_key: str) -> None:
    """Take longer than a stopping worker has."""
    await asyncio.sleep(15.0)


class Item(BaseModel):
    n: int = 0


@dataclass
class Trip:
    """A pipeline whose stages do what they are told, run by run; then they succeed."""

    second: Sequence[str] = ()
    undo: Sequence[str] = ()
    pivot: bool = False
    did: list[str] = field(default_factory=list)
    at: Any = None

    def pipeline(self, *names: str) -> Pipeline:
        first, second = names or ("first", "second")
        stages = [
            Stage(self.book, compensate=self.unbook, name=first),
            Stage(self.fly, name=second, pivot=self.pivot),
        ]
        return Pipeline("trip", payload=Item, stages=stages)

    async def book(self, _: Context[Item]) -> str:
        self.did.append("first")
        return "booked"

    async def fly(self, ctx: Context[Item]) -> str:
        await self.do("second", self.second, ctx)
        return "flown"

    async def unbook(self, ctx: Context[Item]) -> None:
        await self.do("undo", self.undo, ctx)

    async def do(self, name: str, told: Sequence[str], ctx: Context[Item]) -> None:
        self.did.append(name)
        run = self.did.count(name)
        match told[run - 1] if run <= len(told) else "succeed":
            case "die":
                self.at.world.kill(PROCESS.get())
                await asyncio.Event().wait()
            case "freeze":
                self.at.world.loop.freeze(PROCESS.get(), 2 * LEASE_S)
                await asyncio.sleep(1.0)
            case "hang":
                await asyncio.sleep(10 * RUNTIME_S)
            case "crawl":
                for number in count():
                    await asyncio.sleep(STALL_S / 2)
                    await ctx.call(desk, look, number, run)
            case "nap":
                await asyncio.sleep(LEASE_S)
            case "pay":
                await asyncio.sleep(6.0)
                await ctx.call(fax, send, name)
            case "pay and look":
                await asyncio.sleep(6.0)
                looks = [ctx.call(desk, send, f"{n}") for n in range(2)]
                await asyncio.gather(ctx.call(fax, send, name), *looks)
            case told_error if told_error in ERRORS:
                raise ERRORS[told_error]


@dataclass
class End:
    """The end of the chunk."""

    chunk: Chunk
    seconds: float

    @property
    def facts(self) -> tuple[str, str, str, int]:
        """The status, the compensation, the code and the attempts spent."""
        item = self.chunk.item
        of_end = (str(item.get(name, "")) for name in ("compensation", "error_code"))
        return self.chunk.status, *of_end, item["attempts"]


def life_of(
    trip: Trip, meanwhile: Act | None = None, *, workers: int = 1, **settings: float
) -> End:
    """Run a job of one chunk to its end."""
    pipeline = trip.pipeline()

    async def act(at: Simulated) -> End:
        trip.at = at
        await at.submit(pipeline, [Item()])
        began = asyncio.get_running_loop().time()
        if meanwhile is not None:
            await meanwhile(at, trip)
        await at.ended()
        [chunk] = await at.chunks()
        return End(chunk, asyncio.get_running_loop().time() - began)

    known = {
        "lease_s": LEASE_S,
        "max_attempts": 2,
        "max_takeovers": 0,
        "stall_timeout_s": STALL_S,
        "max_runtime_s": RUNTIME_S,
    }
    return simulate(act, [pipeline], workers=workers, **(known | settings))


def test_a_takeover_spends_no_attempt_up_to_a_limit() -> None:
    dies = ["die"] * 4
    assert life_of(Trip(dies), max_takeovers=4).facts == ("SUCCEEDED", "", "", 1)
    assert life_of(Trip(dies), max_takeovers=3).facts == ("SUCCEEDED", "", "", 2)
    end = life_of(Trip(dies), max_takeovers=2)
    assert end.facts == ("DEAD", "COMPENSATED", LOST, 2)
    assert end.chunk.takeovers == 4


def test_a_worker_takes_over_without_a_reconciler() -> None:
    end = life_of(Trip(["die"]), max_takeovers=1, reconcile_s=3_600.0)
    assert end.facts == ("SUCCEEDED", "", "", 1)
    assert end.seconds < 600


GOOD, UNDONE = ["first", "second"], ["first", "second", "undo"]
STALLED, TIMEOUT = "runtime.stage.stalled", "runtime.stage.timeout"


@pytest.mark.parametrize(
    ("second", "undo", "did", "facts"),
    [
        ([], [], GOOD, ("SUCCEEDED", "", "", 1)),
        (["refuse"], [], UNDONE, ("DEAD", "COMPENSATED", NO, 1)),
        (["refuse"], ["refuse"], UNDONE, ("DEAD", "FAILED", NO, 1)),
        (["fail"], [], [*GOOD, "second"], ("SUCCEEDED", "", "", 2)),
        (["cancel"], [], [*GOOD, "second"], ("SUCCEEDED", "", "", 2)),
        # The first stage has its checkpoint: a new attempt does not repeat it.
        (["die"], [], [*GOOD, "second"], ("SUCCEEDED", "", "", 2)),
        (["freeze"], [], [*GOOD, "second"], ("SUCCEEDED", "", "", 2)),
        # The store is at fault, not the stage: no attempt is spent.
        (["store"] * 3, [], [*GOOD, *["second"] * 3], ("SUCCEEDED", "", "", 1)),
        # Without attempts a claim of its own compensates.
        (["die"] * 2, [], [*GOOD, "second", "undo"], ("DEAD", "COMPENSATED", LOST, 2)),
        (
            ["fail", "die"],
            [],
            [*GOOD, "second", "undo"],
            ("DEAD", "COMPENSATED", LOST, 2),
        ),
        (
            ["hang"] * 2,
            [],
            [*GOOD, "second", "undo"],
            ("DEAD", "COMPENSATED", STALLED, 2),
        ),
        (
            ["crawl"] * 2,
            [],
            [*GOOD, "second", "undo"],
            ("DEAD", "COMPENSATED", TIMEOUT, 2),
        ),
        # A compensation that was interrupted goes on; one that kills is given up.
        (["refuse"], ["die"], [*UNDONE, "undo"], ("DEAD", "COMPENSATED", NO, 2)),
        (
            ["die"] * 2,
            ["die"] * MAX_RECOVERIES,
            [*GOOD, "second", *["undo"] * MAX_RECOVERIES],
            ("DEAD", "ABANDONED", LOST, 2),
        ),
        (
            ["die"] * 2,
            ["die"] * (MAX_RECOVERIES - 1),
            [*GOOD, "second", *["undo"] * MAX_RECOVERIES],
            ("DEAD", "COMPENSATED", LOST, 2),
        ),
    ],
)
def test_a_chunk_ends_as_its_stages_do(
    second: list[str], undo: list[str], did: list[str], facts: Any
) -> None:
    trip = Trip(second, undo)

    end = life_of(trip)

    assert did == trip.did
    assert facts == end.facts


def test_a_reconciler_without_a_worker_sends_the_chunk_of_a_dead_worker_again() -> None:
    trip = Trip(["die"])

    async def start(at: Simulated, _: Trip) -> None:
        at.fleet.worker(reconcile=False)
        at.fleet.reconciler()

    end = life_of(trip, start, workers=0, visibility_s=3_600.0)

    assert [*GOOD, "second"] == trip.did
    assert end.seconds < 5 * LEASE_S


# ── a cancel ────────────────────────────────────────────────────────────────


def cancel_after(seconds: float, *, compensate: bool) -> Act:
    """Return an act that cancels the job, starting a worker afterwards if none runs."""

    async def act(at: Simulated, _: Trip) -> None:
        await asyncio.sleep(seconds)
        await cancel(at.rt, REF, actor="us", reason="enough", compensate=compensate)
        if not at.fleet.workers:
            at.fleet.worker(reconcile=True)

    return act


@pytest.mark.parametrize(
    ("trip", "compensate", "workers", "did", "facts"),
    [
        (Trip(), False, 0, [], ("CANCELLED", "", "", 0)),
        (Trip(), True, 0, [], ("CANCELLED", "", "", 0)),
        (Trip(["nap"]), False, 1, GOOD, ("CANCELLED", "", "", 1)),
        (Trip(["nap"]), True, 1, UNDONE, ("CANCELLED", "COMPENSATED", CANCEL, 1)),
        (Trip(["fail"]), False, 1, GOOD, ("CANCELLED", "", LATER, 1)),
        (Trip(["fail"]), True, 1, UNDONE, ("CANCELLED", "COMPENSATED", CANCEL, 2)),
        (
            Trip(["nap"], ["die"]),
            True,
            1,
            [*UNDONE, "undo"],
            ("CANCELLED", "COMPENSATED", LOST, 2),
        ),
        (
            Trip(["nap"], ["refuse"]),
            True,
            1,
            UNDONE,
            ("DEAD", "FAILED", CANCEL, 1),
        ),
        # What may have passed its pivot goes on to its end.
        (Trip(["nap"], pivot=True), True, 1, GOOD, ("SUCCEEDED", "", "", 1)),
        (
            Trip(["fail"], pivot=True),
            True,
            1,
            [*GOOD, "second"],
            ("SUCCEEDED", "", "", 2),
        ),
    ],
)
def test_a_cancelled_chunk_ends_where_it_is_or_is_compensated_once(
    trip: Trip, workers: int, did: list[str], facts: Any, *, compensate: bool
) -> None:
    end = life_of(trip, cancel_after(4.0, compensate=compensate), workers=workers)

    assert did == trip.did
    assert facts == end.facts


# ── a stop ──────────────────────────────────────────────────────────────────


def test_a_stopped_worker_releases_its_chunk_without_an_attempt() -> None:
    trip = Trip(["nap"])

    async def stop(at: Simulated, _: Trip) -> None:
        await asyncio.sleep(4.0)
        at.fleet.stop_worker()
        at.fleet.worker(reconcile=True)

    # A long poll of the stopping worker would receive the released message.
    end = life_of(trip, stop, shutdown_grace_s=0.0, receive_wait_s=0)

    assert [*GOOD, "second"] == trip.did
    assert ("SUCCEEDED", "", "", 1) == end.facts
    assert end.seconds < LEASE_S


@pytest.mark.parametrize(
    ("trip", "cancelled", "did", "facts"),
    [
        (
            Trip(["pay", "pay"]),
            False,
            [*GOOD, "second"],
            ("SUCCEEDED", "", "", 1),
        ),
        (
            Trip(["refuse"], ["pay", "pay"]),
            False,
            [*GOOD, "undo", "undo"],
            ("DEAD", "COMPENSATED", NO, 1),
        ),
        (
            Trip(["pay and look"]),
            True,
            UNDONE,
            ("CANCELLED", "COMPENSATED", CANCEL, 1),
        ),
    ],
)
def test_a_stopped_worker_leaves_an_effect_to_the_next_one(
    trip: Trip, did: list[str], facts: Any, *, cancelled: bool
) -> None:
    async def stop(at: Simulated, told: Trip) -> None:
        await asyncio.sleep(4.0)
        at.fleet.stop_worker()
        at.fleet.worker(reconcile=True)
        if cancelled:
            await cancel_after(4.0, compensate=True)(at, told)

    end = life_of(trip, stop, shutdown_grace_s=12.0, receive_wait_s=0)

    assert did == trip.did
    assert facts == end.facts
    assert end.seconds < 2 * LEASE_S


# ── rows and objects that are not as they were written ──────────────────────


def spoil(what: str, *, started: bool) -> Act:
    """Return an act that changes what is stored of the chunk before its next claim."""

    async def act(at: Simulated, trip: Trip) -> None:
        await asyncio.sleep(RETRY_S / 2 if started else 0.0)
        table, [chunk] = at.rt.table, await at.chunks()
        row = chunk.ref.pk, keys.stage_sk(0, "first", 1)
        match what:
            case "payload":
                pack = PayloadRef.parse(chunk.payload).pack
                key = keys.pack_key(REF.tenant, REF.job, pack)
                await at.rt.objects.put(key, b'{"n": 9}')
                kill_workers(at)  # it keeps payloads in memory
            case "row":
                bad = {"first": {"finished_at": 7}}
                changed = {"update": "SET stages = :bad", "values": {"bad": bad}}
                place = chunk.ref.pk, chunk.ref.sk
                await table.update(table.item_write("Update", *place, **changed))
            case "newer":
                changed = {"update": "SET v = :v", "values": {"v": 99}}
                await table.update(table.item_write("Update", *row, **changed))
            case "renamed":
                at.fleet.pipelines["trip"] = trip.pipeline("first", "third")
                kill_workers(at)
        if not at.fleet.workers:
            at.fleet.worker(reconcile=True)

    return act


def kill_workers(at: Simulated) -> None:
    for process in list(at.fleet.workers):
        at.world.kill(process)


@pytest.mark.parametrize(
    ("what", "started", "facts"),
    [
        ("payload", False, ("DEAD", "NOT_NEEDED", "runtime.payload.corrupt", 1)),
        ("payload", True, ("DEAD", "ABANDONED", "runtime.payload.corrupt", 2)),
        ("row", True, ("DEAD", "ABANDONED", "runtime.record.unreadable", 2)),
        ("renamed", True, ("DEAD", "ABANDONED", "runtime.stage.not_found", 2)),
    ],
)
def test_a_chunk_whose_state_cannot_be_read_is_dead_and_not_compensated(
    what: str, facts: Any, *, started: bool
) -> None:
    trip = Trip(["fail"])

    end = life_of(trip, spoil(what, started=started), workers=int(started))

    assert (GOOD if started else []) == trip.did
    assert facts == end.facts


@pytest.mark.parametrize("what", ["newer", "renamed"])
def test_a_chunk_that_only_a_newer_worker_can_read_waits_for_it(what: str) -> None:
    trip = Trip(["fail"])

    async def meanwhile(at: Simulated, told: Trip) -> None:
        await spoil(what, started=True)(at, told)
        await asyncio.sleep(10 * LEASE_S)
        [chunk] = await at.chunks()
        assert ("WAITING", "workers of another version") == (
            chunk.status,
            chunk.item["blocked_on"],
        )
        at.fleet.pipelines["trip"] = told.pipeline()
        row = chunk.ref.pk, keys.stage_sk(0, "first", 1)
        known = {"update": "SET v = :v", "values": {"v": 1}}
        await at.rt.table.update(at.rt.table.item_write("Update", *row, **known))
        kill_workers(at)

    end = life_of(trip, meanwhile)

    assert [*GOOD, "second"] == trip.did
    assert "SUCCEEDED" == end.chunk.status
