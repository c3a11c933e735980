"""Make equal calls of several chunks and jobs once: `Dependency(by=…, scope=…)`.

begin in the store -> granted:      the attempts -> settle the record
                   -> ended:        its answer is the answer of this call
                   -> in progress:  a short wait, then the chunk is deferred
                   -> otherwise:    an error with its code

The token of a record's owner is the key of the chunk's own call. So the worker that
takes a chunk over continues the record of the dead worker. It does not wait for the
lease of the record. A record is settled before the chunk stores the answer. If the
worker dies in between, the next one finds the answer in the record.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from piecework import telemetry
from piecework.calls.attempts import Attempts
from piecework.calls.call import Call, CallAttempts
from piecework.dependency import Dependency
from piecework.domain import keys
from piecework.domain.effect import Effect
from piecework.domain.identity import function_text, path_of, target_of
from piecework.domain.protocols import CancelRequestedError, ClaimLostError
from piecework.errors import PieceworkError, StoreError, TransientError
from piecework.errors.location import raised_text
from piecework.idempotency.decorator import event_fields, refusal
from piecework.idempotency.record import (
    BeginRequest,
    Ended,
    Granted,
    InProgress,
    OperationRef,
    OutOfOrder,
    State,
    Verdict,
)
from piecework.idempotency.stores import IdempotencyStore, MemoryIdempotency
from piecework.idempotency.strategies import KnownOperation, operation_of, unusable_key
from piecework.resilience.retry import EARLY_CODE, IN_PROGRESS_CODE, Answered, Failed

if TYPE_CHECKING:
    from piecework.domain.protocols import Ledger

#: Seconds before the second look at an operation in progress; they double each time.
FIRST_POLL_S: Final = 0.5
#: Seconds that a call waits in its worker for an equal one. A longer wait could keep
#: the chunk that makes the equal call from its slot.
WAIT_S: Final = 7.5
#: Seconds for which the chunk is deferred then. They grow with each deferral, because
#: many chunks may wait for one long call.
DEFERRED_S, MAX_DEFERRED_S = 10.0, 60.0
#: How often a chunk is deferred for earlier numbers. Each wait is two seconds longer,
#: up to a minute: 45 to 70 minutes in all.
MAX_EARLY_DEFERRALS: Final = 60


@dataclass(frozen=True, slots=True)
class AnsweredBefore(Answered[str]):
    """The end of a call that an equal call, or an earlier claim, was answered for."""


@dataclass(frozen=True, slots=True)
class EqualCalls:
    """Makes calls that other chunks may make, too.

    Attributes:
        claim_s: The most seconds of a claim: no call takes longer with all its waits.
        is_lost: Whether another claim may own the chunk by now, or soon.
    """

    attempts: Attempts
    store: IdempotencyStore = field(default_factory=MemoryIdempotency)
    claim_s: float = 0.0
    is_lost: Callable[[], bool] = lambda: False

    async def make(
        self, call: Call, ref: OperationRef, gen: int, ledger: Ledger | None = None
    ) -> Answered[str] | Failed:
        """Return the end of a call, or the answer of an equal one.

        `ledger`: as for `Attempts.make`.

        Raises:
            StoreError: The store is unavailable, and `by` needs it.
        """
        request = self._request(call, ref, gen)
        verdict = await self._begin(call, request)
        make = functools.partial(self.attempts.make, call, call.sent_key(gen), ledger)
        match verdict:
            case Granted(doubtful):
                # An effect without a ledger to write to has an intent already.
                doubtful = doubtful or (ledger is None and not is_pure(call))
                return await self._settled(call, request, make(), doubtful=doubtful)
            case None:
                return await make()
            case Ended(State.DONE, str(value), own):
                return self._answered(call, request, value, own=own)
            case InProgress(seconds):
                return self._in_progress(call, ref, seconds)
            case OutOfOrder(expected) if self._may_wait:
                return self._early(call, ref, expected)
        return self.attempts.own_failure(CallAttempts(call, ""), refusal(verdict, ref))

    def _in_progress(self, call: Call, ref: OperationRef, seconds: float) -> Failed:
        """Return the end that defers a chunk until an equal call has ended."""
        longest = DEFERRED_S * (1 + self.attempts.counts.deferrals)
        error = TransientError(
            f"{ref.operation} is in progress in an equal call.",
            code=IN_PROGRESS_CODE,
            retry_after=min(seconds, longest, MAX_DEFERRED_S),
            dependency=call.dependency.name,
        )
        return self.attempts.own_failure(CallAttempts(call, ""), error)

    @property
    def _may_wait(self) -> bool:
        """Whether the chunk may be deferred again for the numbers before its own."""
        return self.attempts.counts.early_deferrals < MAX_EARLY_DEFERRALS

    def _early(self, call: Call, ref: OperationRef, expected: int) -> Failed:
        """Return the end that defers a chunk until the numbers before its own are done.

        The wait has an end: a number before it may never come.
        """
        times = self.attempts.counts.early_deferrals
        error = TransientError(
            f"{ref.operation}, number {ref.number}, waits: the next number is"
            f" {expected}.",
            code=EARLY_CODE,
            retry_after=min(ref.number - expected + 2.0 * times, MAX_DEFERRED_S),
            dependency=call.dependency.name,
        )
        return self.attempts.own_failure(CallAttempts(call, ""), error)

    async def complete(
        self, call: Call, ref: OperationRef, gen: int, value: str
    ) -> Failed | None:
        """Settle a number whose answer only the ledger has: an operator resolved it.

        Without it the next number would never be due. Returns the failure that defers
        the chunk while the record of its dead claim has a lease.
        """
        request = self._request(call, ref, gen)
        verdict = await self._begin(call, request)
        if isinstance(verdict, Granted):
            await self._settle(request, State.DONE, value, required=True)
        if isinstance(verdict, InProgress):
            return self._in_progress(call, ref, verdict.seconds)
        return None

    def _request(self, call: Call, ref: OperationRef, gen: int) -> BeginRequest:
        """Return the request to begin a call; its lease covers retries and waits."""
        dependency = call.dependency
        policy = dependency.retry
        longest = policy.attempts * dependency.longest_s + policy.retry_time
        token = keys.provider_key(call.key, gen)
        ttl_s = dependency.by.ttl_s if dependency.by else 0.0
        return BeginRequest(ref, token, max(longest, self.claim_s), ttl_s)

    async def _begin(self, call: Call, request: BeginRequest) -> Verdict | None:
        """Return the store's verdict; wait a little for an equal call in progress.

        None: the store has no answer to give, and the call may be made without it. The
        store keeps no answer above 64 KiB, and none after `ttl_s`.
        """
        waited, pause = 0.0, FIRST_POLL_S
        while True:
            try:
                verdict = await self.store.begin(request)
            except StoreError:
                if not is_best_effort(call):
                    raise
                return None
            if isinstance(verdict, Ended) and verdict.value is None:
                repeatable = verdict.own or is_best_effort(call) or is_pure(call)
                return None if repeatable else verdict
            if not isinstance(verdict, InProgress) or waited >= WAIT_S:
                return verdict
            with self.attempts.admission.gate.waiting():
                await self.attempts.sleep(pause)
            self.attempts.progress()
            waited, pause = waited + pause, 2 * pause

    async def _settled(
        self,
        call: Call,
        request: BeginRequest,
        make: Awaitable[Answered[str] | Failed],
        *,
        doubtful: bool,
    ) -> Answered[str] | Failed:
        """Make the attempts, and settle the record before the chunk stores the end.

        A call that a cancel or a shutdown interrupts is settled at once. So equal calls
        need not wait for the lease.
        """
        try:
            end = await make
        except (asyncio.CancelledError, CancelRequestedError):
            if not self.is_lost():
                await self._settle(request, State.UNKNOWN)
            raise
        if isinstance(end, Answered):
            required = not is_best_effort(call)
            await self._settle(request, State.DONE, end.value, required=required)
        elif not isinstance(end.error, ClaimLostError):
            refused = end.is_not_executed and not doubtful
            await self._settle(request, State.RELEASED if refused else State.UNKNOWN)
        return end

    async def _settle(
        self,
        request: BeginRequest,
        state: State,
        value: str | None = None,
        *,
        required: bool = False,
    ) -> None:
        """Record the end of a call.

        Raises:
            StoreError: It is `required`: without it the next number would never be due.
        """
        try:
            if await self.store.settle(request, state, value):
                return
            reason = "begun again"
        except StoreError as error:
            if required:
                raise
            reason = error.code
        facts = {"status": state.value, "reason": reason, **event_fields(request)}
        telemetry.emit(self.attempts.log, "idempotency.unrecorded", **facts)

    def _answered(
        self, call: Call, request: BeginRequest, value: str, *, own: bool
    ) -> AnsweredBefore:
        """Report a stored answer, and return it.

        `own`: an earlier claim of this chunk has paid for it.
        """
        counts, usage = self.attempts.counts, self.attempts.usage
        if own:
            usage.report_paid(call, call.decode(value), counts)
        else:
            counts.cached += 1
            usage.report_reused(call, value, "cached")
        facts = event_fields(request)
        telemetry.emit(self.attempts.log, "idempotency.replayed", **facts)
        return AnsweredBefore(value)


def is_best_effort(call: Call) -> bool:
    """Return whether a call is made although the store does not answer."""
    by = call.dependency.by
    return by is not None and by.best_effort


def is_pure(call: Call) -> bool:
    """Return whether a call has no effect: to repeat it costs money only."""
    return call.dependency.effect is Effect.PURE


def operation_ref(
    tenant: str,
    dependency: Dependency,
    function: Callable[..., Awaitable[Any]],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> OperationRef | None:
    """Return the operation that a call is; None: no other call is equal.

    Raises:
        PermanentError: `idempotency.key.unusable`.
    """
    by = dependency.by
    if isinstance(by, KnownOperation):
        return by.known
    if by is None:
        return None
    name = f"{path_of(function)} of {dependency.name}"
    version = dependency.version if by.best_effort else ""
    further = (dependency.name, function_text(function), version)
    # Another function may stand for the user's, whose names `of` and `scope` know.
    target = target_of(function)
    own = target if callable(target) else function
    known = tuple(args), dict(kwargs), further
    try:
        return by.ref(operation_of(own, tenant, dependency.scope, name, *known))
    except PieceworkError:
        raise
    except Exception as error:
        reason = f"its strategy or scope {raised_text(error)}"
        raise unusable_key(name, reason) from error
