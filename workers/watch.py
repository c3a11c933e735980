"""Poll the jobs in hand every `cancel_poll_s`, and let go of those that are cancelled.

With them goes the look at the fleet's circuit breakers: one request for all of them.

The renewal of a lease would tell, too, but only every third of a lease; a call that
costs money should be cut off sooner.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass

import structlog

from piecework import telemetry
from piecework.circuits import BreakerRegistry
from piecework.errors import PermanentError, StoreError
from piecework.model import JobRef, JobStatus
from piecework.ports import CancelRequest
from piecework.pulse import REQUEST_S
from piecework.runtime import Runtime
from workers.heart import Lease, LeaseRenewer

#: Seconds for which a chunk is in hand before it is worth a look: most of those that
#: make no calls have ended by then, and of many small jobs a look at each would cost
#: nearly a request a job. A cancel is seen that much later at the most.
MIN_AGE_S = 0.2
#: One item can be read 3,000 times a second. Of a fleet too large for that a worker
#: that is refused looks half as often, and bit by bit as often as before.
THROTTLED = "aws.service.throttled"
SLOW_DOWN, SPEED_UP = 2.0, 0.9


@dataclass(slots=True)
class CancelWatcher:
    """Watches the jobs whose chunks a worker has in hand."""

    rt: Runtime
    lease_renewer: LeaseRenewer
    breakers: BreakerRegistry
    log: structlog.stdlib.BoundLogger

    async def run(self) -> None:
        """Look for ever; with nothing in hand there is nothing to look at."""
        pause = base_pause = self.rt.settings.cancel_poll_s
        while True:
            self.lease_renewer.liveness.expect_within("watch", pause + REQUEST_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self.breakers.changed.wait()
            self.breakers.changed.clear()
            try:
                await self.poll()
                pause = max(base_pause, pause * SPEED_UP)
            except StoreError as error:
                telemetry.emit(self.log, "cancel_watch.failed", error_code=error.code)
                if error.code == THROTTLED:
                    # No rarer than the renewal of the lease, which tells, too.
                    longest_pause = max(base_pause, self.rt.settings.lease_s / 3)
                    pause = min(longest_pause, pause * SLOW_DOWN)

    async def poll(self) -> None:
        """Look once at each job that has chunks in hand; one request a job.

        And one for all breakers, if a chunk is in hand that may call, or if there is
        something to tell the others.

        Raises:
            StoreError: A job could not be read; the others were looked at.
        """
        by_job: dict[JobRef, list[Lease]] = defaultdict(list)
        since = asyncio.get_running_loop().time() - MIN_AGE_S
        for lease in self.lease_renewer.leases.values():
            if lease.acquired_at <= since:
                by_job[lease.claim.ref.of].append(lease)
        failed: StoreError | None = None
        for ref, leases in by_job.items():
            self.lease_renewer.liveness.expect_within("watch", REQUEST_S)
            try:
                request = await self.read_cancel_request(ref)
            except StoreError as error:
                failed = error  # it may be this job's alone: look at the others
                continue
            for lease in leases:
                if request is not None:
                    lease.request_cancel(request)
        if self.lease_renewer.leases or self.breakers.has_pending_writes:
            await self.breakers.sync()
        if failed is not None:
            raise failed

    async def read_cancel_request(self, ref: JobRef) -> CancelRequest | None:
        """Return what a job asks of its chunks.

        Of a record that somebody spoiled nothing: its chunks go on to their ends.
        """
        with suppress(PermanentError):
            job = await self.rt.jobs.read(ref)
            if job is not None and job.status is JobStatus.CANCELLING:
                return CancelRequest(job.cancelled_at, job.compensates_on_cancel)
        return None
