"""Drive a scenario: run operator commands, wait, and retry them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from piecework.domain import keys
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.pipelines import Pipeline
from piecework.runtime import Runtime
from piecework_orchestrator.operate.approvals import AnswerRequest, answer
from piecework_orchestrator.operate.cancel import cancel
from piecework_simulation.coverage import ENDED
from piecework_simulation.crash_points.fault_points import FaultInjector
from piecework_simulation.crash_points.pipelines import Customer
from piecework_simulation.crash_points.provider import RecordingProvider
from piecework_simulation.driver.processes import FleetDriver
from piecework_simulation.engine.world import World
from piecework_simulation.invariants.checker import Invariants

Item = dict[str, Any]

#: Maximum seconds of each wait.
MAX_WAIT_S = 1_800.0
#: Seconds between two polls of a wait.
POLL_S = 0.25
#: Seconds after the end in which workers still clean up. And seconds in which a message
#: that was left in the queue becomes visible again.
CLEANUP_S = 2.0
REDELIVERY_S = 15.0
#: Seconds from the time when all chunks know of the cancel to the release of held
#: calls.
RELEASE_S = 2.0
#: The outcomes of commands that an operator types again if nothing has changed.
WITHOUT_EFFECT = frozenset({"died", "aws.service.throttled"})


@dataclass(frozen=True, slots=True)
class ChunkEnd:
    """The end of a chunk; the code is its error code if it is dead."""

    status: str
    result: str
    code: str
    compensation: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state at the end of a job.

    Attributes:
        chunks: The end of each chunk, and of the join.
        bookings: The bookings of each customer that are in effect.
    """

    job: str
    chunks: dict[int, ChunkEnd]
    bookings: tuple[str, ...]


@dataclass(slots=True)
class ScenarioDriver:
    """One run of a scenario."""

    world: World
    invariants: Invariants
    fleet: FleetDriver
    provider: RecordingProvider
    injector: FaultInjector
    pipeline: Pipeline
    customers: Sequence[Customer]
    ref: JobRef = field(default_factory=lambda: JobRef("tenant", "job"))
    snapshots: list[Snapshot] = field(default_factory=list)
    unfinished: bool = False

    @property
    def job(self) -> Item:
        """The job's record as last written; empty if it does not exist."""
        return self.invariants.jobs.get(self.ref.pk, {})

    @property
    def items(self) -> dict[int, Item]:
        """The chunks' records as they were last written."""
        checkers = self.invariants.chunks[self.ref.pk]
        return {n: checkers[n].item for n in sorted(checkers) if n != keys.JOIN_CHUNK}

    # ── operator commands, retried if they had no effect ────────────────────

    async def submit(self) -> None:
        """Submit the job."""
        outgoing = (self.ref, self.pipeline, self.customers)
        await self.retry_if_died(lambda: self.fleet.submit(*outgoing, mortal=False))

    async def cancel(self, *, compensate: bool) -> None:
        """Cancel the job once all held calls have started; then release them."""
        await self.until(self.all_have_reached)

        async def act(rt: Runtime) -> None:
            await cancel(
                rt, self.ref, actor="us", reason="enough", compensate=compensate
            )

        await self.retry_if_died(
            lambda: self.fleet.command("cancel", self.ref, act, mortal=False)
        )
        await self.until(self.all_know_of_cancel)
        await asyncio.sleep(RELEASE_S)
        self.provider.release.set()

    async def answer(self) -> None:
        """Answer the question of the first customer; a second answer is refused."""
        chunk, yes = self.ref.chunk(0), {"approved": True}

        async def act(rt: Runtime) -> None:
            await answer(rt, chunk, AnswerRequest(yes, "ada", "it is right"))

        def command() -> Coroutine[Any, Any, str]:
            return self.fleet.command("answer", self.ref, act, mortal=False)

        if await command() == "died":
            await command()
        if await command() not in {"approval.question.answered", "died"}:
            self.invariants.report_violation("I24: a second answer was accepted")

    async def retry(self) -> None:
        """Retry the job."""
        await self.reopen(lambda: self.fleet.retry(self.ref, mortal=False))

    async def redrive(self) -> None:
        """Redrive the dead letters."""
        await self.reopen(lambda: self.fleet.redrive(self.ref, mortal=False))

    async def reopen(self, act: Callable[[], Awaitable[str]]) -> None:
        """Reopen the job after the provider recovered; repeat it if it was partial."""
        self.provider.recovered = True
        if await self.retry_if_died(act) == "died":
            await self.until(self.ended)
            if self.job["status"] != JobStatus.SUCCEEDED:
                await act()

    async def retry_if_died(self, act: Callable[[], Awaitable[str]]) -> str:
        """Run a command; run it again if it ended before it had any effect.

        Its process died, or AWS throttled its reads for as long as the SDK tries.
        """
        before, outcome = self.command_state(), await act()
        while outcome in WITHOUT_EFFECT and self.command_state() == before:
            outcome = await act()
        return outcome

    def command_state(self) -> tuple[Any, Any]:
        """Return attributes that every command changes first and no worker changes."""
        return self.job.get("gen"), self.job.get("cancelled_at")

    async def run_uncounted(self, acts: Coroutine[Any, Any, None]) -> None:
        """Run the acts that other scenarios test, without injecting faults."""
        self.injector.counting = False
        await acts
        self.injector.counting = True

    # ── waits ───────────────────────────────────────────────────────────────

    async def wait_for_end(self) -> None:
        """Wait for the end of the job and the cleanup; take a snapshot."""
        await self.until(self.ended)
        await asyncio.sleep(CLEANUP_S)
        self.snapshots.append(self.take_snapshot())

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something."""
        until = self.world.loop.time() + MAX_WAIT_S
        while not condition() and not self.unfinished:
            await asyncio.sleep(POLL_S)
            self.unfinished = self.world.loop.time() > until

    def ended(self) -> bool:
        """Return whether the job has ended."""
        return bool(self.job) and JobStatus(self.job["status"]).ended

    def all_have_reached(self) -> bool:
        """Return whether every chunk has ended or has reached its held call."""
        return len(self.items) == len(self.customers) and all(
            has_reached(item, customer.kind)
            for item, customer in zip(self.items.values(), self.customers, strict=True)
        )

    def all_know_of_cancel(self) -> bool:
        """Return whether every chunk at work knows of the cancel."""
        return self.ended() or all(
            item["status"] in ENDED
            or "cancel_requested_at" in item
            or "direction" in item
            for item in self.items.values()
        )

    def take_snapshot(self) -> Snapshot:
        """Return a snapshot of the current state."""
        checkers = self.invariants.chunks[self.ref.pk]
        chunks = {n: end_of(checkers[n].item) for n in sorted(checkers)}
        bookings = tuple(sorted(self.provider.bookings.elements()))
        return Snapshot(str(self.job.get("status")), chunks, bookings)


def has_reached(item: Item, kind: str) -> bool:
    """Return whether a chunk has reached its state before the cancel."""
    where, _, what = kind.partition(":")
    if what.startswith("asks"):
        return "question" in item or item["status"] == "SUCCEEDED"
    if what == "waits":
        return item["status"] in {"WAITING", "SUCCEEDED"}
    if what == "later":
        # A released lease leaves a chunk WAITING, too, but without a time.
        return bool(item["status"] == "WAITING" and "retry_at" in item)
    if what in {"held", "thinking"}:
        return bool(item["status"] == "RUNNING" and item.get("stage") == where)
    return item["status"] in {"SUCCEEDED", "DEAD"}


def end_of(item: Item) -> ChunkEnd:
    """Return the end of a chunk."""
    status = str(item["status"])
    return ChunkEnd(
        status,
        str(item["result_sha256"]) if status == "SUCCEEDED" else "-",
        str(item["error_code"]) if status == "DEAD" else "-",
        str(item.get("compensation", "-")),
    )
