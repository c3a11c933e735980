"""Keep the claims in hand alive, and end the work on those that are lost.

Every third of a lease each claim is renewed, first the lease, then the message's
visibility: a message that shows too early only costs a loser a look. A claim that
could not be renewed ends by itself on our own monotonic clock, before anybody else
may take the chunk over: "could not renew" is never taken for "probably still ours".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType

import structlog

from piecework import telemetry
from piecework.claim import Claim
from piecework.ports import CancelRequest, ClaimLostError
from piecework.pulse import Liveness
from piecework.queue import Queue
from piecework.settings import Settings
from piecework.store.claims import Claims, Lost

#: Part of the lease that is left when the work on an unrenewed claim is ended.
MARGIN = 0.1


class InterruptReason(StrEnum):
    """Why the work on a chunk was ended from outside."""

    LOST = "lost"
    CANCEL = "cancel"
    STALLED = "stalled"
    TIMEOUT = "timeout"
    STOPPING = "stopping"


def always() -> bool:
    """Say that the work may be cut off."""
    return True


@dataclass(slots=True)
class Lease:
    """A claim in hand, with the message that brought it (a join may have none).

    `async with hold:` is the work on it.
    """

    claim: Claim
    receipt: str | None
    lease_s: float
    acquired_at: float
    progressed_at: float
    reason: InterruptReason | None = None
    is_cancellable: Callable[[], bool] = always
    cancel: CancelRequest | None = None
    #: How often it has been renewed, as far as we know.
    renewals: int = 0
    _scope: asyncio.Timeout | None = None
    _leased_at: float = 0.0

    async def __aenter__(self) -> None:
        """Begin the work; it is cut off, quietly, once there is a reason to."""
        leased_at = max(self.acquired_at, self._leased_at)
        deadline = leased_at + self.lease_s * (1 - MARGIN)
        self._scope = await asyncio.timeout_at(deadline).__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """End the work; True swallows the cut that we made ourselves, and only that."""
        scope, self._scope = self._scope, None
        if scope is None:
            return False
        try:
            await scope.__aexit__(kind, error, trace)
        except TimeoutError:
            self.reason = self.reason or InterruptReason.LOST
            return True
        return False

    @property
    def interrupted(self) -> bool:
        """Whether the work was cut off; it may still be on its way out."""
        expired = self._scope is not None and self._scope.expired()
        return expired or self.reason is not None

    def check_deadline(self) -> None:
        """Refuse to go on past our own deadline: a frozen process wakes up late.

        What was to cut it off then is ready to, but so is what was to go on.

        Raises:
            ClaimLostError: The deadline is past.
        """
        until = self._scope.when() if self._scope is not None else None
        if until is None or asyncio.get_running_loop().time() >= until:
            raise ClaimLostError

    def record_progress(self) -> None:
        """Note that the work is not hung."""
        self.progressed_at = asyncio.get_running_loop().time()

    def extend(self, requested_at: float) -> None:
        """Let the work go on until the end of the lease that was asked for then."""
        if self._scope is not None and not self.interrupted:
            self._leased_at = requested_at
            self._scope.reschedule(requested_at + self.lease_s * (1 - MARGIN))

    def request_cancel(self, asked: CancelRequest) -> None:
        """Cut the work off, unless it is past the point of no return."""
        self.cancel = self.cancel or asked
        if self.is_cancellable():
            self.interrupt(InterruptReason.CANCEL)

    @property
    def will_compensate(self) -> bool:
        """Whether the work was cut off only to be wound back."""
        asked = self.cancel is not None and self.cancel.compensate
        return asked and self.reason is InterruptReason.CANCEL

    def begin_compensation(self) -> None:
        """Keep the claim for the way back, which no cancel cuts off."""
        self.reason = None
        self.is_cancellable = lambda: False
        self.record_progress()

    def interrupt(self, reason: InterruptReason) -> None:
        """Cut the work off."""
        if self._scope is not None and not self.interrupted:
            self.reason = reason
            self._scope.reschedule(asyncio.get_running_loop().time())


@dataclass(slots=True)
class LeaseRegistration:
    """A claim among those that are renewed, as long as this lasts."""

    lease: Lease
    leases: dict[str, Lease]

    def __enter__(self) -> Lease:
        """Begin to keep it alive."""
        self.leases[self.lease.claim.token] = self.lease
        return self.lease

    def __exit__(self, *_: object) -> None:
        """Let it go, and with it the work: the two know each other.

        What is left in a circle, the garbage collector has to look for.
        """
        del self.leases[self.lease.claim.token]
        self.lease.is_cancellable = always


@dataclass(slots=True)
class LeaseRenewer:
    """The one task of a worker that renews all claims in hand."""

    claims: Claims
    queue: Queue
    settings: Settings
    log: structlog.stdlib.BoundLogger
    liveness: Liveness = field(default_factory=Liveness)
    leases: dict[str, Lease] = field(default_factory=dict)
    #: Since when no renewal was answered.
    failing_since: float | None = None

    def maintain(
        self, claim: Claim, receipt: str | None, requested_at: float
    ) -> LeaseRegistration:
        """Keep a claim alive inside; `asked_at`: loop time before it was asked for."""
        now = asyncio.get_running_loop().time()
        lease = Lease(claim, receipt, self.settings.lease_s, requested_at, now)
        return LeaseRegistration(lease, self.leases)

    async def run(self) -> None:
        """Renew for ever; a beat that fails, or hangs, is tried again at the next.

        The next one is due a third after this one began: were a beat that hangs to put
        it off, the claims would end before it.
        """
        third, now = self.settings.lease_s / 3, asyncio.get_running_loop().time
        due = now() + third
        while True:
            self.liveness.expect_within("heart", self.settings.lease_s)
            await asyncio.sleep(max(0.0, due - now()))
            due = now() + third
            try:
                async with asyncio.timeout(third):
                    await self.renew_all()
            except Exception as error:  # noqa: BLE001 -- each hold's deadline stands
                telemetry.emit(
                    self.log, "lease.renew_failed", error=type(error).__name__
                )
                self.failing_since = self.failing_since or now()
            self._feel()

    def _feel(self) -> None:
        """Count as sick once renewals have failed for a lease, with work in hand."""
        if not self.leases:
            self.failing_since = None  # what failed long ago says nothing of the next
        if self.failing_since is None:
            self.liveness.suspend("lease renewals")
        else:
            due = self.failing_since + self.settings.lease_s
            self.liveness.due["lease renewals"] = due

    async def renew_all(self) -> None:
        """Renew every claim in hand, then hide the messages of those that are ours."""
        leases = [lease for lease in self.leases.values() if self._may_go_on(lease)]
        if not leases:
            return
        replies = await asyncio.gather(
            *map(self._renew, leases), return_exceptions=True
        )
        if any(isinstance(reply, bool) for reply in replies):
            self.failing_since = None
        kept = [h for h, reply in zip(leases, replies, strict=True) if reply is True]
        # One that was let go meanwhile has its message hidden until its next turn.
        still = [lease for lease in kept if lease.claim.token in self.leases]
        receipts = [lease.receipt for lease in still if lease.receipt]
        if receipts:
            await self.queue.hide(receipts, self.settings.visibility_s)
        telemetry.emit(self.log, "lease.renewed", count=len(kept))
        for reply in replies:
            if isinstance(reply, BaseException):
                raise reply

    def _may_go_on(self, lease: Lease) -> bool:
        now = asyncio.get_running_loop().time()
        if now - lease.acquired_at > self.settings.max_runtime_s:
            lease.interrupt(InterruptReason.TIMEOUT)
        elif now - lease.progressed_at > self.settings.stall_timeout_s:
            lease.interrupt(InterruptReason.STALLED)
        return not lease.interrupted

    async def _renew(self, lease: Lease) -> bool:
        requested_at = asyncio.get_running_loop().time()
        reply = await self.claims.renew(lease.claim, lease.renewals)
        if isinstance(reply, Lost):
            lease.interrupt(InterruptReason.LOST)
            return False
        lease.renewals = reply.renewals
        lease.extend(requested_at)
        if reply.cancel is not None:
            lease.request_cancel(reply.cancel)
        return True
