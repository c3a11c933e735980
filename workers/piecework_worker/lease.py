"""Renew the leases of a worker, and interrupt the work on claims that are lost.

Every third of a lease the worker renews each lease, then the visibility of its message.
A message that reappears too early costs only a refused claim. If a lease cannot be
renewed, the worker ends the work before another worker may claim the chunk. It measures
that time on its own monotonic clock. The worker never assumes that an unrenewed lease
is still valid.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Protocol

import structlog

from piecework import telemetry
from piecework.aws.queue import Receipt
from piecework.aws.work_queues import WorkQueues
from piecework.calls.pause_gate import PauseGate
from piecework.calls.usage import ClaimUsage
from piecework.domain.claim import Claim
from piecework.domain.protocols import CancelRequest, ClaimLostError
from piecework.settings import MAX_RECEIVE_S, Settings
from piecework.store.claims import Claims, Lost
from piecework.telemetry.health import Liveness

#: Fraction of the lease that remains when the work on an unrenewed claim is
#: interrupted.
MARGIN = 0.1
#: Where `Liveness` has the time by which AWS must answer a lease renewal.
ANSWERED = "answered lease renewal"


class InterruptReason(StrEnum):
    """Why the worker interrupted the work on a chunk."""

    LOST = "lost"
    CANCEL = "cancel"
    STALLED = "stalled"
    TIMEOUT = "timeout"
    STOPPING = "stopping"
    PAUSED = "paused"


class Work(Protocol):
    """The work on a claim, as far as its lease asks about it."""

    @property
    def gate(self) -> PauseGate:
        """What keeps the calls of the work from starting."""

    @property
    def usage(self) -> ClaimUsage:
        """What the calls of the work used so far."""

    @property
    def may_be_interrupted(self) -> bool:
        """Whether a cancel may interrupt the work now."""

    @property
    def leaves_doubt(self) -> bool:
        """Whether an interrupt would leave the effect of a call in doubt."""


@dataclass(slots=True)
class Lease:
    """A claim's lease, and the receipt of the message that brought the chunk, if any.

    The work runs inside `async with lease:`.

    Attributes:
        acquired_at: Loop time just before the claim was requested.
        progressed_at: Loop time of the last recorded progress.
        started_at: Loop time of the claim, plus the waits of the work for its turn.
        is_waiting: Whether the work waits for its turn.
        is_final: Whether the claim compensates after a cancel; no other one interrupts.
        work: The work on the claim; None: not yet, or no more.
    """

    claim: Claim
    receipt: Receipt | None
    lease_s: float
    acquired_at: float
    progressed_at: float
    started_at: float = field(init=False)
    #: When the keeper last decided whether the work may go on.
    looked_at: float = field(init=False)
    is_waiting: bool = field(init=False, default=False)
    reason: InterruptReason | None = None
    cancel: CancelRequest | None = None
    is_final: bool = False
    work: Work | None = None
    #: Renewals that the worker knows to have succeeded.
    renewals: int = 0
    #: The loop of the work.
    _loop: asyncio.AbstractEventLoop | None = None
    _scope: asyncio.Timeout | None = None
    _leased_at: float = 0.0

    def __post_init__(self) -> None:
        """Count the runtime from the claim."""
        self.started_at = self.looked_at = self.acquired_at

    async def __aenter__(self) -> None:
        """Start the deadline of the work; an interrupt raises no error outside."""
        self._loop = asyncio.get_running_loop()
        leased_at = max(self.acquired_at, self._leased_at)
        deadline = leased_at + self.lease_s * (1 - MARGIN)
        self._scope = await asyncio.timeout_at(deadline).__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """End the work; return True only for this lease's own interrupt."""
        scope, self._scope = self._scope, None
        if scope is None:
            return False
        try:
            await scope.__aexit__(kind, error, trace)
        except TimeoutError:
            self.reason = self.reason or InterruptReason.LOST
            return True
        # The unwinding work has made a call, which `check_deadline` has refused.
        refused = isinstance(error, ClaimLostError) and self.reason is not None
        return refused and self.reason is not InterruptReason.LOST

    @property
    def interrupted(self) -> bool:
        """Whether the work was interrupted; it may still be unwinding."""
        expired = self._scope is not None and self._scope.expired()
        return expired or self.reason is not None

    @property
    def is_settling(self) -> bool:
        """Whether the interrupted work has ended, and this claim may write its end."""
        return self._scope is None and self.reason is not InterruptReason.LOST

    def is_lost(self) -> bool:
        """Return whether another worker may own the chunk by now."""
        expires = max(self.acquired_at, self._leased_at) + self.lease_s
        now = asyncio.get_running_loop().time()
        return self.reason is InterruptReason.LOST or now >= expires

    def check_deadline(self) -> None:
        """Refuse to continue past the deadline: a frozen process may resume late.

        The deadline's timeout is ready to run then, but so is the work itself.

        Raises:
            ClaimLostError: The deadline has passed.
        """
        until = self._scope.when() if self._scope is not None else None
        if until is None or asyncio.get_running_loop().time() >= until:
            raise ClaimLostError

    def record_progress(self) -> None:
        """Record that the work is not hung; a plain stage calls this in its thread."""
        loop = self._loop or asyncio.get_running_loop()
        self.progressed_at = loop.time()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Wait for a turn inside.

        The wait does not count as runtime, because other chunks cause it.
        """
        now = asyncio.get_running_loop().time
        began_at, self.is_waiting = now(), True
        try:
            yield
        finally:
            self.is_waiting = False
            self.started_at += now() - began_at
            self.record_progress()

    def extend(self, requested_at: float) -> None:
        """Move the deadline to the end of the lease requested at `requested_at`."""
        self._leased_at = requested_at
        if self._scope is not None and not self.interrupted:
            self._scope.reschedule(requested_at + self.lease_s * (1 - MARGIN))

    def request_cancel(self, asked: CancelRequest) -> None:
        """Record a cancel; interrupt the work unless it has passed its pivot."""
        self.cancel = self.cancel or asked
        may_not = self.work is not None and not self.work.may_be_interrupted
        if not (self.is_final or may_not):
            self.interrupt(InterruptReason.CANCEL)

    def seen_cancel(self) -> CancelRequest | None:
        """Return the cancel request that a renewal or a poll has seen."""
        return self.cancel

    def set_paused(self, *, paused: bool) -> None:
        """Close or open the gate of the work, as its job is paused or not."""
        if self.work is not None:
            if paused:
                self.work.gate.close()
            else:
                self.work.gate.open()

    def on_nothing_in_flight(self) -> None:
        """Interrupt the work: its closed gate leaves nothing in flight."""
        self.interrupt(InterruptReason.PAUSED)

    @property
    def will_compensate(self) -> bool:
        """Whether the work was interrupted in order to be compensated."""
        asked = self.cancel is not None and self.cancel.compensate
        return asked and self.reason is InterruptReason.CANCEL

    def begin_compensation(self) -> None:
        """Keep the claim for the compensation, which no cancel interrupts."""
        self.reason = None
        self.is_final = True
        self.record_progress()

    def interrupt(self, reason: InterruptReason) -> None:
        """Interrupt the work; only the first reason counts."""
        if self._scope is not None and not self.interrupted:
            self.reason = reason
            self._scope.reschedule(asyncio.get_running_loop().time())


@dataclass(slots=True)
class LeaseRegistration:
    """Registers a lease for renewal while the `with` block runs."""

    lease: Lease
    leases: dict[str, Lease]

    def __enter__(self) -> Lease:
        """Start the renewal of the lease."""
        self.leases[self.lease.claim.token] = self.lease
        return self.lease

    def __exit__(self, *_: object) -> None:
        """Stop the renewal, and break the cycle between the lease and its work.

        Without that, only the garbage collector could free them.
        """
        del self.leases[self.lease.claim.token]
        self.lease.work = None


@dataclass(slots=True)
class LeaseRenewer:
    """Renews all leases of a worker in one task."""

    claims: Claims
    queues: WorkQueues
    settings: Settings
    log: structlog.stdlib.BoundLogger
    liveness: Liveness = field(default_factory=Liveness)
    leases: dict[str, Lease] = field(default_factory=dict)
    #: Loop time since which no renewal has been answered.
    failing_since: float | None = None

    def maintain(
        self, claim: Claim, receipt: Receipt | None, requested_at: float
    ) -> LeaseRegistration:
        """Renew a lease inside `with`; `requested_at`: loop time of its request."""
        now = asyncio.get_running_loop().time()
        lease = Lease(claim, receipt, self.settings.lease_s, requested_at, now)
        return LeaseRegistration(lease, self.leases)

    async def run(self) -> None:
        """Renew all leases until cancelled; the next renewal retries a failed one.

        The next renewal is due one third of a lease after this one *started*. If a hung
        renewal could delay it, the leases would expire first.
        """
        third, now = self.settings.lease_s / 3, asyncio.get_running_loop().time
        due = now() + third
        while True:
            self.liveness.expect_within("lease renewal", self.settings.lease_s)
            await asyncio.sleep(max(0.0, due - now()))
            due = now() + third
            try:
                async with asyncio.timeout(third):
                    await self.renew_all()
            except Exception as error:  # noqa: BLE001 -- each lease keeps its deadline
                telemetry.emit(
                    self.log, "lease.renew_failed", error=type(error).__name__
                )
                self.failing_since = self.failing_since or now()
            self._report_health()

    def _report_health(self) -> None:
        """Report unhealthy once renewals have failed for a whole lease time."""
        if not self.leases:
            self.failing_since = None  # an old failure does not tell how the next ends
        if self.failing_since is None:
            self.liveness.suspend(ANSWERED)
        else:
            due = self.failing_since + self.settings.lease_s
            self.liveness.due[ANSWERED] = due

    async def renew_all(self) -> None:
        """Renew every lease, then hide the messages of the renewed ones."""
        leases = [lease for lease in self.leases.values() if self._may_go_on(lease)]
        if not leases:
            return
        replies = await asyncio.gather(
            *map(self._renew, leases), return_exceptions=True
        )
        if any(isinstance(reply, bool) for reply in replies):
            self.failing_since = None
        kept = [
            lease for lease, reply in zip(leases, replies, strict=True) if reply is True
        ]
        # A lease that ended meanwhile has its message hidden until the next attempt.
        still = [lease for lease in kept if lease.claim.token in self.leases]
        receipts = [lease.receipt for lease in still if lease.receipt]
        if receipts:
            await self.queues.hide(receipts, self.settings.visibility_s)
        telemetry.emit(self.log, "lease.renewed", count=len(kept))
        for reply in replies:
            if isinstance(reply, BaseException):
                raise reply

    def _may_go_on(self, lease: Lease) -> bool:
        now, settings = asyncio.get_running_loop().time(), self.settings
        gate = lease.work.gate if lease.work else None
        if gate is not None and gate.is_slow:
            # Its own timeout ends an attempt in a slow lane. Its time does not count,
            # or the claim would end with the answer, before it is used.
            lease.started_at += now - lease.looked_at
            lease.record_progress()
        lease.looked_at = now
        if lease.is_waiting or (gate is not None and gate.is_waiting):
            lease.record_progress()
        ran_s = 0.0 if lease.is_waiting else now - lease.started_at
        longest_s = MAX_RECEIVE_S - settings.visibility_s
        if ran_s > settings.max_runtime_s or now - lease.acquired_at > longest_s:
            lease.interrupt(InterruptReason.TIMEOUT)
        elif now - lease.progressed_at > settings.stall_timeout_s:
            lease.interrupt(InterruptReason.STALLED)
        return not lease.interrupted or lease.is_settling

    async def _renew(self, lease: Lease) -> bool:
        requested_at = asyncio.get_running_loop().time()
        used = lease.work.usage.whole if lease.work else None
        reply = await self.claims.renew(lease.claim, lease.renewals, used)
        if isinstance(reply, Lost):
            lease.interrupt(InterruptReason.LOST)
            return False
        lease.renewals = reply.renewals
        lease.extend(requested_at)
        if reply.cancel is not None:
            lease.request_cancel(reply.cancel)
        return True
