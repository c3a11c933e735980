"""Poll the worker's jobs every `cancel_poll_s`: stop what is cancelled or paused.

Each poll also syncs the fleet's circuit breakers: one request for all of them. The
renewal of a lease sees a cancel too, but only every third of a lease. A call that costs
money should be interrupted sooner.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog

from piecework import telemetry
from piecework.calls.fleet_breaker import BreakerRegistry
from piecework.domain.job import Job
from piecework.domain.protocols import CancelRequest
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.errors import PermanentError, StoreError
from piecework.runtime import Runtime
from piecework.telemetry.health import REQUEST_S
from piecework_worker.lease import Lease, LeaseRenewer

#: Seconds that a lease must exist before its job is polled. Most chunks without calls
#: have ended by then, and polling many small jobs would cost nearly one request per
#: job. A cancel is seen that much later at most.
MIN_AGE_S = 0.2
#: DynamoDB reads one item at most 3,000 times a second. In a larger fleet, a throttled
#: worker halves its rate of polls, and raises it again step by step.
THROTTLED = "aws.service.throttled"
SLOW_DOWN, SPEED_UP = 2.0, 0.9


@dataclass(slots=True)
class CancelPoller:
    """Polls the jobs of a worker's leases for cancel requests.

    Attributes:
        remember: Receives each job that was read, with the loop time of the read.
    """

    rt: Runtime
    lease_renewer: LeaseRenewer
    breakers: BreakerRegistry
    log: structlog.stdlib.BoundLogger
    remember: Callable[[JobRef, Job, float], None] = lambda *_: None

    async def run(self) -> None:
        """Poll until cancelled; without leases there is nothing to poll."""
        pause = base_pause = self.rt.settings.cancel_poll_s
        while True:
            self.lease_renewer.liveness.expect_within("cancel poll", pause + REQUEST_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self.breakers.changed.wait()
            self.breakers.changed.clear()
            try:
                await self.poll()
                pause = max(base_pause, pause * SPEED_UP)
            except StoreError as error:
                telemetry.emit(self.log, "cancel_poll.failed", error_code=error.code)
                if error.code == THROTTLED:
                    # Not less often than the renewal of the lease, which sees a cancel
                    # too.
                    longest_pause = max(base_pause, self.rt.settings.lease_s / 3)
                    pause = min(longest_pause, pause * SLOW_DOWN)

    async def poll(self) -> None:
        """Poll each job that has leases, with one request per job.

        Sync all breakers in one more request, if there are leases or unsent changes.

        Raises:
            StoreError: A job could not be read; the other jobs were polled.
        """
        by_job: dict[JobRef, list[Lease]] = defaultdict(list)
        since = asyncio.get_running_loop().time() - MIN_AGE_S
        for lease in self.lease_renewer.leases.values():
            if lease.acquired_at <= since:
                by_job[lease.claim.ref.of].append(lease)
        failed: StoreError | None = None
        for ref, leases in by_job.items():
            self.lease_renewer.liveness.expect_within("cancel poll", REQUEST_S)
            try:
                job = await self.read_job(ref)
            except StoreError as error:
                failed = error  # another job's row may still be readable
                continue
            if job is not None:
                with suppress(PermanentError):  # its row may be damaged
                    apply_status(job, leases)
        if self.lease_renewer.leases or self.breakers.has_pending_writes:
            await self.breakers.sync()
        if failed is not None:
            raise failed

    async def read_job(self, ref: JobRef) -> Job | None:
        """Return a job; None: an operator made its row unreadable, or deleted it.

        Its chunks continue then.
        """
        read_at = asyncio.get_running_loop().time()
        with suppress(PermanentError):
            job = await self.rt.jobs.read(ref)
            if job is not None:
                self.remember(ref, job, read_at)
            return job
        return None


def apply_status(job: Job, leases: Sequence[Lease]) -> None:
    """Interrupt the chunks of a cancelled job; keep a paused one's calls back."""
    for lease in leases:
        lease.set_paused(paused=job.status is JobStatus.PAUSED)
        if job.status is JobStatus.CANCELLING:
            lease.request_cancel(
                CancelRequest(job.cancelled_at, job.compensates_on_cancel)
            )
