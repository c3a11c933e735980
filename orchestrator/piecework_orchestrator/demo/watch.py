"""Poll the job and show its progress until a condition is reached."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus
from piecework.runtime import Runtime
from piecework.store.completion import all_chunks
from piecework_orchestrator.demo.processes import (
    WORKER_LOGS,
    AddinStats,
    ChildProcess,
    DemoError,
    DemoProcesses,
    ModelStats,
    ServiceLedgers,
)
from piecework_orchestrator.demo.screen import Progress, Screen

# ── read the JSON logs of the workers while they grow ─────────────────────────

MODEL = "bedrock"
RATE_LIMITED = {"llm.http.429_rate_limited", "tool.http.429_rate_limited"}


@dataclass(slots=True)
class Logs:
    """Counts from the logs in a folder.

    Attributes:
        retried: Number of retried calls, by error code.
        durations: Duration of each answered model call, in milliseconds.
        claimed: The worker that claimed a chunk, by chunk and fence.
        replayed: Calls that a claim replayed from the journal, by chunk and fence.
        leases_lost: Expired leases of running workers, a sign of an overloaded machine.
    """

    folder: Path
    retried: Counter[str] = field(default_factory=Counter)
    durations: list[int] = field(default_factory=list)
    claimed: dict[tuple[int, int], str] = field(default_factory=dict)
    replayed: dict[tuple[int, int], int] = field(default_factory=dict)
    leases_lost: int = 0
    _read: dict[Path, int] = field(default_factory=dict)

    def read(self) -> None:
        """Read the lines written since the last call."""
        for path in sorted(self.folder.glob(WORKER_LOGS)):
            with path.open("rb") as log:
                log.seek(self._read.get(path, 0))
                # A killed worker may leave half a line, a living one writes on it.
                whole, newline, _ = log.read().rpartition(b"\n")
            self._read[path] = self._read.get(path, 0) + len(whole) + len(newline)
            for line in whole.splitlines():
                self.add_line(line)

    def add_line(self, line: bytes) -> None:
        """Count one line; skip a line that is not an event."""
        try:
            fields = json.loads(line)
        except ValueError:
            return
        if isinstance(fields, dict):
            self._count(fields)

    def _count(self, fields: dict[str, Any]) -> None:
        match fields.get("event"):
            case "call.attempt" if fields["outcome"] == "failed":
                self.retried[fields["error_code"]] += 1
            case "call.attempt" if fields["dependency"] == MODEL:
                if fields["outcome"] == "answered":
                    self.durations.append(fields["duration_ms"])
            case "chunk.claimed":
                self.claimed[fields["chunk"], fields["fence"]] = fields["worker"]
            case (
                "chunk.succeeded"
                | "chunk.retry_scheduled"
                | "chunk.deferred"
                | "chunk.released"
                | "chunk.cancelled"
                | "chunk.dead_lettered"
            ):
                self.replayed[fields["chunk"], fields["fence"]] = fields["replayed"]
            case "lease.lost":
                self.leases_lost += 1

    @property
    def rate_limited(self) -> int:
        """Number of retries after a 429."""
        return sum(self.retried[code] for code in RATE_LIMITED)

    @property
    def p95_s(self) -> float | None:
        """Return the 95th percentile of the durations in seconds, or None."""
        if not self.durations:
            return None
        ordered = sorted(self.durations)
        return ordered[(len(ordered) * 95 - 1) // 100] / 1000


POLL_S = 0.2
#: Seconds of each wait for a call of each chunk: a minute for the 25 of the default.
TIMEOUT_S_PER_CALL = 2.4


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
        return sum(chunk.status.ended for chunk in self.chunks)


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
        timeout_s = TIMEOUT_S_PER_CALL * self.calls_per_chunk
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    snapshot = await self.take_snapshot()
                    self.show(snapshot)
                    observe(snapshot)
                    if condition(snapshot):
                        return snapshot
                    self.check_workers()
                    await asyncio.sleep(POLL_S)
        except TimeoutError as error:
            message = f"after {timeout_s:.0f} s not reached: {description}"
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


# ── find claimed chunks and takeovers in the rows of the table ────────────────

#: The stages in which a chunk makes the calls that cost money.
PAID_STAGES = frozenset({"score", "analyse"})
#: The paid stage that runs after twelve paid calls.
CHECKPOINTED_STAGES = frozenset({"analyse"})


@dataclass(frozen=True, slots=True)
class ClaimedChunk:
    """A chunk that a worker had claimed at the kill."""

    chunk: int
    stage: str
    fence: int


@dataclass(frozen=True, slots=True)
class Takeover:
    """A chunk of the killed worker that another worker has claimed.

    Attributes:
        by: The owner in the table; empty if it has released the chunk again.
        seconds: Seconds from the kill until the claim was observed.
    """

    claimed: ClaimedChunk
    by: str
    seconds: float


def owner_pid(chunk: Chunk) -> int:
    """Return the pid of a running chunk's owner, or 0."""
    if chunk.status is not ChunkStatus.RUNNING:
        return 0
    pid = chunk.claimed_by.rpartition("-")[2]
    return int(pid) if pid.isdecimal() else 0


def claimed_chunks(chunks: Iterable[Chunk], pid: int) -> list[ClaimedChunk]:
    """Return the chunks that a process has claimed, by the table."""
    return [
        ClaimedChunk(chunk.ref.chunk, chunk.stage, chunk.fence)
        for chunk in chunks
        if owner_pid(chunk) == pid
    ]


def workers_in_stages(
    chunks: Sequence[Chunk], pids: Iterable[int], stages: Collection[str] = PAID_STAGES
) -> list[int]:
    """Return the processes that run a chunk in one of the stages."""
    return [
        pid
        for pid in pids
        if any(h.stage in stages for h in claimed_chunks(chunks, pid))
    ]


def find_takeovers(
    waiting: Iterable[ClaimedChunk], chunks: Sequence[Chunk], seconds: float
) -> list[Takeover]:
    """Return the chunks that another worker has claimed."""
    now = {chunk.ref.chunk: chunk for chunk in chunks}
    return [
        Takeover(claimed, now[claimed.chunk].claimed_by, seconds)
        for claimed in waiting
        if now[claimed.chunk].fence > claimed.fence
    ]


# ── kill one worker while it has chunks ───────────────────────────────────────

#: This many chunks end before a worker is killed, so that the job is well under way.
#: After the second number of chunks, a worker in any paid stage may be killed.
MIN_ENDED_CHUNKS, ANY_PAID_STAGE_FROM = 7, 11


@dataclass(slots=True)
class WorkerKill:
    """A killed worker, its claimed chunks, and their takeovers.

    Attributes:
        at: Time of the kill, in seconds since 1970.
        paid_twice: Calls that the model had answered twice before the kill.
    """

    worker: ChildProcess
    at: float
    paid_twice: int
    claimed: list[ClaimedChunk]
    takeovers: list[Takeover] = field(default_factory=list)

    @property
    def waiting(self) -> list[ClaimedChunk]:
        """The chunks that no worker has taken over yet."""
        done = {takeover.claimed for takeover in self.takeovers}
        return [claimed for claimed in self.claimed if claimed not in done]


async def kill_one(
    watcher: JobWatcher, workers: Sequence[ChildProcess], rng: Random
) -> WorkerKill:
    """Kill a worker with SIGKILL while the table shows that it runs a chunk.

    SIGSTOP comes first, so that the table still shows this when the worker is killed.
    """
    pids = {worker.pid: worker for worker in workers}

    def candidates(snapshot: Snapshot) -> list[int]:
        stages = (
            CHECKPOINTED_STAGES if snapshot.ended < ANY_PAID_STAGE_FROM else PAID_STAGES
        )
        return (
            workers_in_stages(snapshot.chunks, pids, stages)
            if snapshot.ended >= MIN_ENDED_CHUNKS
            else []
        )

    frozen: list[int] = []
    while not frozen:
        snapshot = await watcher.wait_until(
            lambda snapshot: bool(candidates(snapshot)), "a worker runs a chunk"
        )
        worker = pids[rng.choice(candidates(snapshot))]
        worker.signal(signal.SIGSTOP)
        frozen = workers_in_stages((await watcher.take_snapshot()).chunks, [worker.pid])
        if not frozen:
            worker.signal(signal.SIGCONT)
    watcher.processes.stopped.add(worker.name)
    worker.signal(signal.SIGKILL)
    at = watcher.rt.clock()
    await worker.wait_until_exited()
    # What it had sent before may still have been written: so the table is asked again.
    snapshot = await watcher.take_snapshot()
    claimed = claimed_chunks(snapshot.chunks, worker.pid)
    chunks = ", ".join(f"{h.chunk} ({h.stage})" for h in claimed)
    watcher.screen.print_line(
        "kill",
        f"{worker.name} (pid {worker.pid}) was killed with SIGKILL; "
        f"its chunks: {chunks}",
    )
    return WorkerKill(worker, at, snapshot.model.answered_twice, claimed)


def report_takeovers(watcher: JobWatcher, kill: WorkerKill, snapshot: Snapshot) -> None:
    """Report the killed worker's chunks that other workers have claimed since then."""
    fresh = find_takeovers(kill.waiting, snapshot.chunks, snapshot.at - kill.at)
    for takeover in fresh:
        claimed = takeover.claimed
        by = takeover.by or watcher.logs.claimed.get(
            (claimed.chunk, claimed.fence + 1), ""
        )
        name = watcher.processes.worker_name(by) or "another"
        watcher.screen.print_line(
            "takeover",
            f"chunk {claimed.chunk}: {kill.worker.name} -> {name} "
            f"after {takeover.seconds:.1f} s, continues in {claimed.stage}",
        )
    kill.takeovers += fresh
