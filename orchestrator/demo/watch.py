"""Look at the job again and again, and show it, until something has come about."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from orchestrator.demo.books import Addin, Books, Model
from orchestrator.demo.failure import StoryError
from orchestrator.demo.logs import Logs
from orchestrator.demo.machine import Machine
from orchestrator.demo.progress import Progress
from orchestrator.demo.screen import Screen
from orchestrator.demo.takeover import in_hand
from piecework.model import Chunk, Job, JobRef
from piecework.runtime import Runtime
from piecework.store.census import all_chunks

EVERY_S = 0.2
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at one moment (seconds since 1970)."""

    at: float
    job: Job
    chunks: tuple[Chunk, ...]
    model: Model
    addin: Addin

    @property
    def ended(self) -> int:
        """How many chunks have ended."""
        return sum(chunk.status.terminal for chunk in self.chunks)


@dataclass(slots=True)
class Watch:
    """Who looks, and at what."""

    rt: Runtime
    machine: Machine
    books: Books
    logs: Logs
    screen: Screen
    ref: JobRef
    calls_per_chunk: int
    began: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin now."""
        self.began = self.rt.clock()

    async def until(
        self,
        reached: Callable[[Look], bool],
        what: str,
        notice: Callable[[Look], None] = lambda _: None,
    ) -> Look:
        """Look until it is so, show each look, and tell `notice` of each.

        Raises:
            StoryError: A worker ended by itself, or the patience did.
        """
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    look = await self.look()
                    self.show(look)
                    notice(look)
                    if reached(look):
                        return look
                    self.check_workers()
                    await asyncio.sleep(EVERY_S)
        except TimeoutError as error:
            message = f"after {PATIENCE_S:.0f} s still not: {what}"
            raise StoryError(message) from error

    async def look(self) -> Look:
        """Look at tables, books and logs, the tables strongly consistent."""
        job = await self.rt.jobs.read(self.ref)
        if job is None:
            message = f"job {self.ref.job} is gone"
            raise StoryError(message)
        chunks = [c async for c in all_chunks(self.rt.table, self.ref, job.chunks)]
        at = self.rt.clock()
        model, addin = await self.books.model(), await self.books.addin(self.ref.job)
        self.logs.read()
        return Look(at, job, tuple(chunks), model, addin)

    def show(self, look: Look) -> None:
        """Show a look."""
        job = look.job
        self.screen.show(
            Progress(
                chunks_ended=look.ended,
                chunks=job.chunks,
                calls_made=look.model.made,
                calls_done=look.model.answered + look.addin.effects.total(),
                calls_expected=job.chunks * self.calls_per_chunk,
                retries=self.logs.retried.total(),
                rate_limited=self.logs.rate_limited,
                p95_s=self.logs.p95_s,
                elapsed_s=look.at - self.began,
                workers=self.doing(look),
            )
        )

    def doing(self, look: Look) -> dict[str, str]:
        """Return what each worker has in hand."""
        said = {}
        for name, worker in self.machine.workers.items():
            held = in_hand(look.chunks, worker.pid)
            work = ", ".join(f"chunk {h.chunk} {h.stage}" for h in held)
            if name in self.machine.dismissed:
                work = f"gone; left {work}" if work else "gone"
            said[name] = work or "-"
        return said

    def check_workers(self) -> None:
        """Notice a worker that should be there and is not."""
        for worker in self.machine.at_work:
            if not worker.alive:
                raise StoryError(worker.last_words())
