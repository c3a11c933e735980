"""What all chunks in the hands of one worker share."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import structlog

from piecework.attempts import new_token_buckets
from piecework.circuits import BreakerRegistry
from piecework.errors import StoreError
from piecework.metering.cost_meter import acting_as
from piecework.model import ChunkRef, Job, JobRef, iso
from piecework.outcome import NEWER_WORKERS, Deferred
from piecework.payloads import Payloads
from piecework.pipeline import Pipeline
from piecework.pulse import Liveness
from piecework.recovery import retry_after
from piecework.retry_tokens import RetryTokenBucket
from piecework.rounds import CallPacer
from piecework.runtime import Runtime
from piecework.store.breakers import Breakers
from piecework.store.claims import Claims
from piecework.store.dead_letters import DeadLetters
from piecework.store.settle import Settlements
from workers.heart import LeaseRenewer
from workers.isolation import Isolation
from workers.slots import CallLimiter
from workers.timings import RunningStage, StageDurations

#: Seconds for which what a job's item says of its pipeline and size is believed. Both
#: never change; what may change is decided on the chunk.
JOB_CACHE_TTL_S = 60.0
JOB_CACHE_SIZE = 1_000


@dataclass(slots=True)
class WorkerServices:
    """One worker's tools."""

    rt: Runtime
    worker: str
    pipelines: Mapping[str, Pipeline]
    log: structlog.stdlib.BoundLogger
    claims: Claims
    settlements: Settlements
    dead_letters: DeadLetters
    payloads: Payloads
    lease_renewer: LeaseRenewer
    call_limiter: CallLimiter
    breakers: BreakerRegistry
    liveness: Liveness = field(default_factory=Liveness)
    retry_tokens: defaultdict[str, RetryTokenBucket] = field(
        default_factory=new_token_buckets
    )
    pacer: CallPacer = field(default_factory=CallPacer)
    #: Where isolated stages run; None: in this process.
    isolation: Isolation | None = None
    #: The stage that each claim in hand is at, by token, and what stages took so far.
    running_stages: dict[str, RunningStage] = field(default_factory=dict)
    stage_durations: StageDurations = field(default_factory=StageDurations)
    #: Set whenever a message comes in: wakes an idle reconciler beside the worker.
    message_received: asyncio.Event = field(default_factory=asyncio.Event)
    #: Takes a chunk in hand without a message; None while the worker does not run.
    on_chunk_offered: Callable[[ChunkRef, int], Awaitable[bool]] | None = None
    #: The worker takes nothing new for now, until this is over or it is told to stop.
    intake_paused: bool = False
    #: Says how many things the worker is at, a receive included; and wakes it.
    count_unfinished: Callable[[], int] = lambda: 0
    wake_receiver: Callable[[], None] = lambda: None
    _jobs: dict[JobRef, tuple[float, Job]] = field(default_factory=dict)
    _reading: dict[JobRef, asyncio.Task[Job | None]] = field(default_factory=dict)
    _noted_unknown: set[JobRef] = field(default_factory=set)
    _noted_blocked: dict[tuple[JobRef, str], float] = field(default_factory=dict)

    async def job(self, ref: JobRef) -> Job | None:
        """Return a job, remembered for a while; those who ask at once read it once."""
        now = asyncio.get_running_loop().time()
        cached = self._jobs.get(ref)
        if cached is not None and now - cached[0] < JOB_CACHE_TTL_S:
            return cached[1]
        read = self._reading.get(ref)
        if read is None:
            read = self._reading[ref] = asyncio.create_task(self._read(ref, now))
            read.add_done_callback(lambda done: self._on_job_read(ref, done))
        return await asyncio.shield(read)

    async def _read(self, ref: JobRef, now: float) -> Job | None:
        job = await self.rt.jobs.read(ref)
        if job is not None:
            if len(self._jobs) >= JOB_CACHE_SIZE:
                self._jobs.clear()
            self._jobs[ref] = (now, job)
        return job

    def _on_job_read(self, ref: JobRef, read: asyncio.Task[Job | None]) -> None:
        del self._reading[ref]
        if not read.cancelled():
            read.exception()  # raised where it is waited for; that may be nowhere

    async def offer_chunk(self, ref: ChunkRef, gen: int) -> bool:
        """Offer the worker a chunk; say whether it took it."""
        with acting_as("worker"):  # whoever offers it, the work is ours
            return self.on_chunk_offered is not None and await self.on_chunk_offered(
                ref, gen
            )

    def lease_count(self) -> int:
        """Return how many chunks are in hand."""
        return len(self.lease_renewer.leases)

    def pause_intake(self, *, on: bool) -> None:
        """Let the worker take nothing new, or go on with that."""
        if on is not self.intake_paused:
            self.intake_paused = on
            self.wake_receiver()

    async def note_unknown_pipeline(self, job: Job) -> None:
        """Tell those who look at the job, once, why it does not get on here."""
        if job.ref not in self._noted_unknown:
            if len(self._noted_unknown) >= JOB_CACHE_SIZE:
                self._noted_unknown.clear()
            self._noted_unknown.add(job.ref)
            reason = f"worker {self.worker} does not have pipeline {job.pipeline}"
            with suppress(StoreError):
                await self.rt.jobs.note(job.ref, "runtime.pipeline.unknown", reason)

    async def note_blocked(self, job: Job, deferred: Deferred) -> None:
        """Tell those who look at the job what it waits for, once for each time."""
        name, now = deferred.blocked_on, self.rt.clock()
        if self._noted_blocked.get((job.ref, name), now) > now:
            return
        until = now + retry_after(deferred.failure)
        if len(self._noted_blocked) >= JOB_CACHE_SIZE:
            self._noted_blocked.clear()
        self._noted_blocked[job.ref, name] = until
        blocker = name if name == NEWER_WORKERS else f"dependency {name}"
        reason = f"waits for {blocker} until {iso(until)}"
        with suppress(StoreError):
            await self.rt.jobs.note(job.ref, deferred.failure.code, reason, until)


def open_services(
    rt: Runtime, worker: str, pipelines: Mapping[str, Pipeline], log: Any
) -> WorkerServices:
    """Lay out the tools of a worker."""
    settings, clock = rt.settings, rt.clock
    renewal_claims = Claims(rt.renewal_table, settings, worker, clock, rt.rng)
    liveness = Liveness()
    return WorkerServices(
        rt=rt,
        worker=worker,
        pipelines=pipelines,
        log=log,
        claims=Claims(rt.table, settings, worker, clock, rt.rng),
        settlements=Settlements(rt.table, rt.dead_letters, settings, clock),
        dead_letters=DeadLetters(rt.dead_letters, settings, clock),
        payloads=Payloads(rt.objects),
        lease_renewer=LeaseRenewer(
            renewal_claims, rt.renewal_queue, settings, log, liveness
        ),
        call_limiter=CallLimiter(settings.max_calls_in_flight),
        breakers=BreakerRegistry(clock, rt.rng, log, Breakers(rt.table, worker, clock)),
        liveness=liveness,
    )


def receive_wait_s(rt: Runtime) -> int:
    """Return how long to wait for a message: a stop waits for it, too.

    On loopback a request costs nothing, and nobody likes to wait for Ctrl-C.
    """
    return (
        min(rt.settings.receive_wait_s, 2)
        if rt.endpoint.loopback
        else rt.settings.receive_wait_s
    )
