"""The disruptions of a deployment, drawn by the seed, spread over the work."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

from piecework.aws.queue import Message
from piecework.domain.refs import JobRef
from piecework_orchestrator.demo.processes import ChildProcess
from piecework_orchestrator.embedded.deploy import make_client
from verification.soak import microburst, tap
from verification.soak.changes import Changes
from verification.soak.fleet import Fleet, worker_name
from verification.soak.plan import PACE, Plan
from verification.soak.traffic import Traffic

POLL_S = 0.05
#: The share of the chunks that end under disruptions; the last ones end without.
DISRUPTED = 0.9
#: Without progress for so long, the next disruption starts all the same.
PATIENCE_S = 12.0
#: A disruption waits so long for a busy worker, and for others that can take over its
#: chunks. If no other worker runs, no worker takes the chunks over.
BUSY_WORKER_S = 20.0
OTHERS = 2
#: Seconds between two disruptions.
PAUSE_S = 1.5
LEASE_S = float(PACE["PIECEWORK_LEASE_S"])
QUIESCED_S = 30.0
#: Open chunks of a job that is worth cancelling, and how long one is waited for.
LARGE = 15
LARGE_JOB_S = LEASE_S + 5.0
BATCH = 10


@dataclass(slots=True)
class Killer:
    """Causes the disruptions of a plan.

    Attributes:
        done: What was tried, and when.
        hit: How many disruptions hit a worker, by their names.
        on_idle_workers: The disruptions of workers without a chunk.
        calm_periods: The begin and end of each time without new faults.
    """

    plan: Plan
    fleet: Fleet
    changes: Changes
    traffic: Traffic
    queue: str
    rng: Random
    done: list[tuple[str, float]] = field(default_factory=list)
    hit: Counter[str] = field(default_factory=Counter)
    on_idle_workers: int = 0
    calm_periods: list[tuple[float, float]] = field(default_factory=list)
    _sqs: Any = None

    async def run(self) -> None:
        """Cause one disruption after the other, as the work gets on."""
        self._sqs = make_client("sqs", self.fleet.site.emulator)
        disruptions = self.plan.disruptions()
        for number, name in enumerate(disruptions):
            await asyncio.sleep(PAUSE_S)
            await self.wait_for_progress(len(disruptions) - number)
            self.done.append((name, time.time()))
            await getattr(self, name)()

    def share(self) -> float:
        """Return the share of the disruptions that were caused."""
        disruptions = len(self.plan.disruptions())
        return len(self.done) / disruptions if disruptions else 1.0

    async def wait_for_progress(self, left: int) -> None:
        """Wait, so that the disruptions spread over all the work."""
        until = time.monotonic() + PATIENCE_S
        done = len(self.changes.ended_once)
        wanted = done + (self.plan.chunks * DISRUPTED - done) / left
        while len(self.changes.ended_once) < wanted and time.monotonic() < until:  # noqa: ASYNC110 -- a poll of the stream
            await asyncio.sleep(POLL_S)

    async def kill(self) -> None:
        """Kill a worker that runs chunks."""
        if victim := await self.victim("kill"):
            self.fleet.kill(victim)

    async def freeze(self) -> None:
        """Freeze a worker until others have long taken its chunks over."""
        if victim := await self.victim("freeze"):
            self.fleet.freeze(victim, LEASE_S * self.rng.uniform(1.5, 2.5))

    async def stop(self) -> None:
        """Stop a worker gracefully."""
        if victim := await self.victim("stop"):
            self.fleet.stop(victim)

    async def victim(self, disruption: str) -> ChildProcess | None:
        """Return a busy worker, while others are there to take over."""
        until = time.monotonic() + BUSY_WORKER_S
        while True:
            ready = self.fleet.ready
            busy = [w for w in ready if self.changes.held_by(worker_name(w))]
            late = time.monotonic() > until
            if len(ready) > OTHERS and (busy or late):
                self.hit[disruption] += 1
                self.on_idle_workers += not busy
                return self.rng.choice(busy or ready)
            if late:
                return None
            await asyncio.sleep(POLL_S)

    async def reconciler(self) -> None:
        """Kill the reconciler."""
        self.fleet.replace_reconciler()

    async def duplicate(self) -> None:
        """Let SQS deliver messages of any chunks once more, of past generations too."""
        known = [
            Message.about(JobRef("default", job).chunk(number), item["gen"])
            for job, chunks in self.changes.chunks.items()
            for number, item in chunks.items()
        ]
        chosen = self.rng.sample(known, min(BATCH, len(known)))
        for message in chosen:
            body = message.model_dump_json()
            await asyncio.to_thread(
                self._sqs.send_message, QueueUrl=self.queue, MessageBody=body
            )

    async def lose(self) -> None:
        """Let SQS lose what waits in the queue."""
        reply = await asyncio.to_thread(
            self._sqs.receive_message,
            QueueUrl=self.queue,
            MaxNumberOfMessages=BATCH,
            WaitTimeSeconds=0,
        )
        for message in reply.get("Messages", []):
            await asyncio.to_thread(
                self._sqs.delete_message,
                QueueUrl=self.queue,
                ReceiptHandle=message["ReceiptHandle"],
            )

    async def cancel_without_faults(self) -> None:
        """Cancel a running job while nothing else goes wrong."""
        faults, throttles = self.fleet.site.faults, self.fleet.site.tap
        await asyncio.to_thread(microburst.disable, faults)
        await asyncio.to_thread(tap.calm, throttles, yes=True)
        began = time.time()
        try:
            await self.cancel()
        finally:
            self.calm_periods.append((began, time.time()))
            await asyncio.to_thread(tap.calm, throttles, yes=False)
            await asyncio.to_thread(microburst.enable, faults)

    async def cancel(self) -> None:
        """Cancel a running job, wait until it quiesces; retry all but the last."""
        while self.fleet.frozen:  # noqa: ASYNC110 -- they thaw by themselves
            await asyncio.sleep(POLL_S)
        job = await self.large_job()
        words = (job, "--reason", "soak")
        # It may have ended by itself in the meantime.
        cancel = ("jobs", "cancel", *words, "--yes")
        if not job or not await self.traffic.command(*cancel, may=True):
            return
        until = time.monotonic() + QUIESCED_S
        while not self.changes.ended([job]) and time.monotonic() < until:
            await self.changes.catch_up()
        if self.done[-1][0] in self.plan.disruptions()[len(self.done) :]:
            await self.traffic.command("jobs", "retry", *words)

    async def large_job(self) -> str:
        """Return the job with the most open chunks, but no chunk of a killed worker.

        A small job would end too soon. A chunk of a killed worker quiesces only after
        its lease, but the figure is about the cancel.
        """
        until = time.monotonic() + LARGE_JOB_S
        while time.monotonic() < until:
            running = [
                j for j, m in self.changes.jobs.items() if m["status"] == "RUNNING"
            ]
            alive = [job for job in running if not self.held_by_killed(job)]
            most = max(alive, key=self.changes.open_in, default="")
            if most and self.changes.open_in(most) >= LARGE:
                return most
            await asyncio.sleep(POLL_S)
        return ""

    def held_by_killed(self, job: str) -> bool:
        """Return whether a killed worker is the owner of a chunk of a job."""
        dead = {death.worker for death in self.fleet.deaths}
        chunks = self.changes.chunks[job].values()
        return any(
            item["status"] == "RUNNING" and item.get("claimed_by") in dead
            for item in chunks
        )
