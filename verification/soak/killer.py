"""Whatever can befall a deployment, by seed, spread over the work."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

from piecework.aws.queue import Message
from piecework.domain.model import JobRef
from piecework_orchestrator.demo.processes import ChildProcess
from piecework_orchestrator.embedded.deploy import make_client
from verification.soak import microburst
from verification.soak.changes import Changes
from verification.soak.crew import Crew, worker_name
from verification.soak.plan import PACE, Plan
from verification.soak.traffic import Traffic

POLL_S = 0.05
#: The share of the chunks that ends under blows; the last ones end in peace.
STRUCK = 0.9
#: Without progress for so long, the next blow falls all the same.
PATIENCE_S = 12.0
#: A blow waits so long for a worker with its hands full, and for others to go on
#: with what it holds: without any of them there is no promise to be kept.
FULL_HANDS_S = 20.0
OTHERS = 2
#: Seconds between two blows.
PAUSE_S = 1.5
LEASE_S = float(PACE["PIECEWORK_LEASE_S"])
QUIET_S = 30.0
#: Open chunks of a job that is worth cancelling, and how long one is waited for.
IN_FULL_SWING = 15
FULL_SWING_S = LEASE_S + 5.0
BATCH = 10


@dataclass(slots=True)
class Killer:
    """Deals the blows of a plan.

    Attributes:
        dealt: What was tried, and when.
        met: The blows that met a worker, by their names.
        in_vain: Of these, the ones that met it with its hands empty.
        lulls: From when to when nothing went wrong, but for what had before.
    """

    plan: Plan
    crew: Crew
    changes: Changes
    traffic: Traffic
    queue: str
    rng: Random
    dealt: list[tuple[str, float]] = field(default_factory=list)
    met: Counter[str] = field(default_factory=Counter)
    in_vain: int = 0
    lulls: list[tuple[float, float]] = field(default_factory=list)
    _sqs: Any = None

    async def deal(self) -> None:
        """Deal one blow after the other, as the work gets on."""
        self._sqs = make_client("sqs", self.crew.site.emulator)
        blows = self.plan.blows()
        for number, blow in enumerate(blows):
            await asyncio.sleep(PAUSE_S)
            await self.let_work_get_on(len(blows) - number)
            self.dealt.append((blow, time.time()))
            await getattr(self, blow)()

    def share(self) -> float:
        """Return the share of the blows that have fallen."""
        blows = len(self.plan.blows())
        return len(self.dealt) / blows if blows else 1.0

    async def let_work_get_on(self, blows_left: int) -> None:
        """Wait so that the blows that are left spread over the work that is left."""
        until = time.monotonic() + PATIENCE_S
        done = len(self.changes.ended_once)
        wanted = done + (self.plan.chunks * STRUCK - done) / blows_left
        while len(self.changes.ended_once) < wanted and time.monotonic() < until:  # noqa: ASYNC110 -- a poll of the stream
            await asyncio.sleep(POLL_S)

    async def kill(self) -> None:
        """Kill a worker with chunks in hand."""
        if victim := await self.victim("kill"):
            self.crew.kill(victim)

    async def freeze(self) -> None:
        """Stop one in its tracks until others have long taken its chunks over."""
        if victim := await self.victim("freeze"):
            self.crew.freeze(victim, LEASE_S * self.rng.uniform(1.5, 2.5))

    async def stop(self) -> None:
        """Stop one gracefully."""
        if victim := await self.victim("stop"):
            self.crew.stop(victim)

    async def victim(self, blow: str) -> ChildProcess | None:
        """Return a worker with its hands full, while others are there to go on."""
        until = time.monotonic() + FULL_HANDS_S
        while True:
            ready = self.crew.ready
            busy = [w for w in ready if self.changes.held_by(worker_name(w))]
            late = time.monotonic() > until
            if len(ready) > OTHERS and (busy or late):
                self.met[blow] += 1
                self.in_vain += not busy
                return self.rng.choice(busy or ready)
            if late:
                return None
            await asyncio.sleep(POLL_S)

    async def reconciler(self) -> None:
        """Kill the reconciler."""
        self.crew.replace_reconciler()

    async def duplicate(self) -> None:
        """Let SQS deliver messages of any chunks once more, of past lives too."""
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

    async def cancel_in_a_lull(self) -> None:
        """Cancel a job at work while nothing else goes wrong."""
        faults = self.crew.site.faults
        await asyncio.to_thread(microburst.calm, faults)
        began = time.time()
        try:
            await self.cancel()
        finally:
            self.lulls.append((began, time.time()))
            await asyncio.to_thread(microburst.let_loose, faults)

    async def cancel(self) -> None:
        """Cancel a job at work, wait until it is quiet; all but the last go on."""
        while self.crew.frozen:  # noqa: ASYNC110 -- they thaw by themselves
            await asyncio.sleep(POLL_S)
        job = await self.job_in_full_swing()
        words = (job, "--reason", "soak")
        # It may have ended by itself in the meantime.
        cancel = ("jobs", "cancel", *words, "--yes")
        if not job or not await self.traffic.command(*cancel, may=True):
            return
        until = time.monotonic() + QUIET_S
        while not self.changes.ended([job]) and time.monotonic() < until:
            await self.changes.catch_up()
        if self.dealt[-1][0] in self.plan.blows()[len(self.dealt) :]:
            await self.traffic.command("jobs", "retry", *words)

    async def job_in_full_swing(self) -> str:
        """Return the job with the most open chunks, none of them in a dead hand.

        A small one would end too soon, and what a dead worker holds is quiet only after
        its lease: it is the cancel that is measured.
        """
        until = time.monotonic() + FULL_SWING_S
        while time.monotonic() < until:
            running = [
                j for j, m in self.changes.jobs.items() if m["status"] == "RUNNING"
            ]
            living = [job for job in running if not self.held_by_the_dead(job)]
            most = max(living, key=self.changes.open_in, default="")
            if most and self.changes.open_in(most) >= IN_FULL_SWING:
                return most
            await asyncio.sleep(POLL_S)
        return ""

    def held_by_the_dead(self, job: str) -> bool:
        """Return whether a worker that was killed holds a chunk of a job."""
        dead = {death.worker for death in self.crew.deaths}
        chunks = self.changes.chunks[job].values()
        return any(
            item["status"] == "RUNNING" and item.get("claimed_by") in dead
            for item in chunks
        )
