"""Kill one worker while it has chunks, and report the workers that take them over."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from orchestrator.demo.children import ChildProcess
from orchestrator.demo.takeover import (
    CHECKPOINTED_STAGES,
    PAID_STAGES,
    ClaimedChunk,
    Takeover,
    claimed_chunks,
    find_takeovers,
    workers_in_stages,
)
from orchestrator.demo.watch import JobWatcher, Snapshot

#: Chunks that have ended before a worker is killed, so that the job is in full swing,
#: and after which the choice of the worker gets less particular.
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
