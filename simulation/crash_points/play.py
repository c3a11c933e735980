"""What a scenario is played with: people, who wait, look, and ask again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.cancel import cancel
from piecework import keys
from piecework.model import JobRef, JobStatus
from piecework.pipeline import Pipeline
from piecework.runtime import Runtime
from simulation.actors import Cast
from simulation.coverage import ENDED
from simulation.crash_points.pipelines import Customer
from simulation.crash_points.strikes import Strikes
from simulation.crash_points.town import Town
from simulation.promises import Promises
from simulation.world import World

Item = dict[str, Any]

#: Seconds within which whatever is waited for has to happen.
LONGEST_S = 1_800.0
#: Seconds between two looks of those who wait.
LOOK_S = 0.25
#: Seconds after the end in which workers still tidy up, and in which a message that
#: was left behind comes back.
TIDY_S = 2.0
COMES_BACK_S = 15.0
#: Seconds after which those that are held up are let go, once all know of the cancel.
LET_GO_S = 2.0


@dataclass(frozen=True, slots=True)
class End:
    """How a chunk ended; the code is what it died of."""

    status: str
    result: str
    code: str
    compensation: str


@dataclass(frozen=True, slots=True)
class Picture:
    """How things stand at an end.

    Attributes:
        chunks: The end of each, and of the join.
        booked: What stands for whom.
    """

    job: str
    chunks: dict[int, End]
    booked: tuple[str, ...]


@dataclass(slots=True)
class Play:
    """One run of a scenario."""

    world: World
    promises: Promises
    cast: Cast
    town: Town
    strikes: Strikes
    pipeline: Pipeline
    customers: Sequence[Customer]
    ref: JobRef = field(default_factory=lambda: JobRef("tenant", "job"))
    pictures: list[Picture] = field(default_factory=list)
    unended: bool = False

    @property
    def job(self) -> Item:
        """The job's record as it was last written; empty: there is none."""
        return self.promises.jobs.get(self.ref.pk, {})

    @property
    def items(self) -> dict[int, Item]:
        """The chunks' records as they were last written."""
        books = self.promises.chunks[self.ref.pk]
        return {n: books[n].item for n in sorted(books) if n != keys.JOIN_CHUNK}

    # ── what people do: again, if it came to nothing ────────────────────────

    async def submit(self) -> None:
        """Submit the job."""
        asked = (self.ref, self.pipeline, self.customers)
        await self.insist(lambda: self.cast.submit(*asked, mortal=False))

    async def cancel(self, *, compensate: bool) -> None:
        """Cancel the job once all stand where they are held up; then let them go."""
        await self.until(self.all_in_place)

        async def act(rt: Runtime) -> None:
            await cancel(
                rt, self.ref, actor="us", reason="enough", compensate=compensate
            )

        await self.insist(lambda: self.cast.command("cancel", act, mortal=False))
        await self.until(self.all_know)
        await asyncio.sleep(LET_GO_S)
        self.town.gate.set()

    async def resume(self) -> None:
        """Take the job up again."""
        await self.take_up(lambda: self.cast.resume(self.ref, mortal=False))

    async def redrive(self) -> None:
        """Redrive the dead letters."""
        await self.take_up(lambda: self.cast.redrive(self.ref, mortal=False))

    async def take_up(self, act: Callable[[], Awaitable[str]]) -> None:
        """Let the job go on now that all is mended; if half of it does, the rest."""
        self.town.mended = True
        if await self.insist(act) == "died":
            await self.until(self.ended)
            if self.job["status"] != JobStatus.SUCCEEDED:
                await act()

    async def insist(self, act: Callable[[], Awaitable[str]]) -> str:
        """Do something; once more if whoever did it died before it had any effect."""
        before = self.mark()
        said = await act()
        if said == "died" and self.mark() == before:
            said = await act()
        return said

    def mark(self) -> tuple[Any, Any]:
        """Return what each command changes at its beginning, and work does not."""
        return self.job.get("gen"), self.job.get("cancelled_at")

    async def uncounted(self, acts: Coroutine[Any, Any, None]) -> None:
        """Let happen first what other scenarios strike at."""
        self.strikes.counting = False
        await acts
        self.strikes.counting = True

    # ── what they wait for ──────────────────────────────────────────────────

    async def come_to_an_end(self) -> None:
        """Wait for the end of the job and for those who tidy up; take a picture."""
        await self.until(self.ended)
        await asyncio.sleep(TIDY_S)
        self.pictures.append(self.picture())

    async def until(self, there: Callable[[], bool]) -> None:
        """Wait for something."""
        until = self.world.loop.time() + LONGEST_S
        while not there() and not self.unended:
            await asyncio.sleep(LOOK_S)
            self.unended = self.world.loop.time() > until

    def ended(self) -> bool:
        """Say whether the job is at an end."""
        return bool(self.job) and JobStatus(self.job["status"]).ended

    def all_in_place(self) -> bool:
        """Say whether all have an end, or stand where they are held up."""
        return len(self.items) == len(self.customers) and all(
            in_place(item, customer.kind)
            for item, customer in zip(self.items.values(), self.customers, strict=True)
        )

    def all_know(self) -> bool:
        """Say whether nobody is at work any more that has not heard of the cancel."""
        return self.ended() or all(
            item["status"] in ENDED or "cancel_requested" in item or "direction" in item
            for item in self.items.values()
        )

    def picture(self) -> Picture:
        """Return how things stand."""
        books = self.promises.chunks[self.ref.pk]
        chunks = {n: end_of(books[n].item) for n in sorted(books)}
        booked = tuple(sorted(self.town.booked.elements()))
        return Picture(str(self.job.get("status")), chunks, booked)


def in_place(item: Item, kind: str) -> bool:
    """Say whether a chunk has come as far as it does before the cancel."""
    where, _, what = kind.partition(":")
    if what == "later":
        return bool(item["status"] == "WAITING")
    if what in {"held", "thinking"}:
        return bool(item["status"] == "RUNNING" and item.get("stage") == where)
    return item["status"] in {"SUCCEEDED", "DEAD"}


def end_of(item: Item) -> End:
    """Return the end that a chunk has come to."""
    status = str(item["status"])
    return End(
        status,
        str(item["result_sha256"]) if status == "SUCCEEDED" else "-",
        str(item["error_code"]) if status == "DEAD" else "-",
        str(item.get("compensation", "-")),
    )
