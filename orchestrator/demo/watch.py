"""Poll the job and show its progress until a condition is reached."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from orchestrator.demo.books import AddinStats, ModelStats, ServiceLedgers
from orchestrator.demo.failure import DemoError
from orchestrator.demo.logs import Logs
from orchestrator.demo.machine import DemoProcesses
from orchestrator.demo.progress import Progress
from orchestrator.demo.screen import Screen
from orchestrator.demo.takeover import claimed_chunks
from piecework.model import Chunk, Job, JobRef
from piecework.runtime import Runtime
from piecework.store.census import all_chunks

POLL_S = 0.2
TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state at one moment (seconds since 1970)."""

    at: float
    job: Job
    chunks: tuple[Chunk, ...]
    model: ModelStats
    addin: AddinStats

    @property
    def ended(self) -> int:
        """Number of ended chunks."""
        return sum(chunk.status.terminal for chunk in self.chunks)


@dataclass(slots=True)
class JobWatcher:
    """Polls a job and its services, and shows the progress."""

    rt: Runtime
    processes: DemoProcesses
    ledgers: ServiceLedgers
    logs: Logs
    screen: Screen
    ref: JobRef
    calls_per_chunk: int
    started_at: float = field(init=False)

    def __post_init__(self) -> None:
        """Set the start time."""
        self.started_at = self.rt.clock()

    async def wait_until(
        self,
        condition: Callable[[Snapshot], bool],
        description: str,
        observe: Callable[[Snapshot], None] = lambda _: None,
    ) -> Snapshot:
        """Poll until the condition is true; show each snapshot, pass it to `observe`.

        Raises:
            DemoError: A worker exited by itself, or the timeout passed.
        """
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while True:
                    snapshot = await self.take_snapshot()
                    self.show(snapshot)
                    observe(snapshot)
                    if condition(snapshot):
                        return snapshot
                    self.check_workers()
                    await asyncio.sleep(POLL_S)
        except TimeoutError as error:
            message = f"after {TIMEOUT_S:.0f} s not reached: {description}"
            raise DemoError(message) from error

    async def take_snapshot(self) -> Snapshot:
        """Read tables (strongly consistent), ledgers and logs."""
        job = await self.rt.jobs.read(self.ref)
        if job is None:
            message = f"job {self.ref.job} does not exist"
            raise DemoError(message)
        chunks = [c async for c in all_chunks(self.rt.table, self.ref, job.chunks)]
        at = self.rt.clock()
        model, addin = (
            await self.ledgers.model(),
            await self.ledgers.addin(self.ref.job),
        )
        self.logs.read()
        return Snapshot(at, job, tuple(chunks), model, addin)

    def show(self, snapshot: Snapshot) -> None:
        """Show the progress of a snapshot."""
        job = snapshot.job
        self.screen.show_progress(
            Progress(
                chunks_ended=snapshot.ended,
                chunks=job.chunks,
                calls_made=snapshot.model.made,
                calls_done=snapshot.model.answered + snapshot.addin.effects.total(),
                calls_expected=job.chunks * self.calls_per_chunk,
                retries=self.logs.retried.total(),
                rate_limited=self.logs.rate_limited,
                p95_s=self.logs.p95_s,
                elapsed_s=snapshot.at - self.started_at,
                workers=self.worker_activity(snapshot),
            )
        )

    def worker_activity(self, snapshot: Snapshot) -> dict[str, str]:
        """Return the chunks of each worker as text."""
        activity = {}
        for name, worker in self.processes.workers.items():
            claimed = claimed_chunks(snapshot.chunks, worker.pid)
            work = ", ".join(f"chunk {h.chunk} {h.stage}" for h in claimed)
            if name in self.processes.stopped:
                work = f"stopped; left {work}" if work else "stopped"
            activity[name] = work or "-"
        return activity

    def check_workers(self) -> None:
        """Raise if a worker that should be running has exited."""
        for worker in self.processes.active_workers:
            if not worker.alive:
                raise DemoError(worker.describe_exit())
