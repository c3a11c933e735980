"""Make the attempts of one call: admitted, within a timeout, with retries.

attempt = lookup, if an earlier attempt may have caused the effect
          -> admission (`admission.py`) -> circuit breaker -> the user's function
"""

from __future__ import annotations

import asyncio
import functools
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import (
    AbstractAsyncContextManager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass, field, replace
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from piecework import telemetry
from piecework.calls.admission import Admission
from piecework.calls.call import Call, CallAttempts, CallCounts
from piecework.calls.in_flight import CallPacer, InFlight, may_still_execute
from piecework.calls.invoke import as_failure
from piecework.calls.recorder import CallRecorder
from piecework.calls.usage import UsageReporter
from piecework.dependency import Usage, key_argument, outside_chunk, taking
from piecework.domain.budget import Amount
from piecework.domain.effect import Effect
from piecework.errors import PermanentError, PieceworkError, TransientError
from piecework.errors.classify import mark
from piecework.resilience.breaker import (
    Health,
)
from piecework.resilience.limits import (
    micros,
)
from piecework.resilience.retry import (
    WAITS_FOR_THE_FLEET,
    Answered,
    Failed,
    Retries,
    RetryTime,
    RetryTokenBucket,
    budget_exhausted_error,
    not_executed,
    not_sent,
)

if TYPE_CHECKING:
    import structlog

    from piecework.calls.shared_budget import Reservation
    from piecework.domain.protocols import Ledger
    from piecework.errors import ErrorEnvelope


def new_token_buckets() -> defaultdict[str, RetryTokenBucket]:
    """Return the retry tokens of a process that has just started, by dependency."""
    return defaultdict(RetryTokenBucket)


#: Surrounds each execution of a call's function; it receives the idempotency key.
Execution: TypeAlias = Callable[[Call, str], AbstractAsyncContextManager[None]]


def plain_execution(call: Call, key: str) -> AbstractAsyncContextManager[None]:
    """Add nothing to the execution of a function."""
    del call, key
    return NOTHING


NOTHING: Final = nullcontext()


@dataclass(slots=True)
class Attempts:
    """Makes the attempts of one claim's calls.

    Attributes:
        retry_time: The delays that all calls of the claim share.
        admission: Lets an execution start within all limits.
        check_lease: Called right before each attempt. It raises if this worker does not
            own the claim any more, as after the whole process was frozen.
        retry_tokens: The retry tokens of the whole worker, by dependency.
        enforce_retry_budget: Whether a retry needs one of these retry tokens.
        usage: Reports each answer and what it cost.
        recorder: Records how each call went.
        pacer: Spreads the start of the worker's calls over event loop rounds.
        execution: Surrounds the execution of a function; a test injects faults here.
        answered_level: The level of the event of an answered attempt.
        acquired_at: Loop time of the claim.
    """

    retry_time: RetryTime
    admission: Admission
    rng: Random
    clock: Callable[[], float]
    log: structlog.stdlib.BoundLogger
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    progress: Callable[[], None] = lambda: None
    check_lease: Callable[[], None] = lambda: None
    retry_tokens: defaultdict[str, RetryTokenBucket] = field(
        default_factory=new_token_buckets
    )
    enforce_retry_budget: bool = True
    counts: CallCounts = field(default_factory=CallCounts)
    usage: UsageReporter = field(default_factory=UsageReporter)
    pacer: CallPacer = field(default_factory=CallPacer)
    execution: Execution = plain_execution
    answered_level: Literal["debug", "info"] = "debug"
    acquired_at: float = -inf
    recorder: CallRecorder = field(init=False)
    in_flight: InFlight = field(init=False)

    def __post_init__(self) -> None:
        self.recorder = CallRecorder(self.clock)
        self.in_flight = InFlight(self.sleep, self.progress, self.acquired_at)

    async def make(
        self, call: Call, sent_key: str, ledger: Ledger | None = None
    ) -> Answered[str] | Failed:
        """Return the end of a call, answered with its encoded value.

        An attempt after one that may have been executed is preceded by a lookup.
        `ledger`: receives the intent of an effect right before its first attempt.
        """
        attempts = CallAttempts(call, sent_key, ledger=ledger)
        now = asyncio.get_running_loop().time
        may_retry = functools.partial(self._may_retry, attempts)
        policy = call.dependency.retry
        retries = Retries(policy, self.retry_time, self.rng, may_retry)
        try:
            while True:
                end = await self._look_up_again(attempts)
                if end is None:
                    attempts.correct_budgets(Amount())
                    try:
                        warms = call.dependency.warming is not None
                        sending = self._send_in_turn if warms else self._send
                        end = await sending(attempts)
                    except BaseException:
                        self._count_failure(attempts, None)
                        attempts.end(self.log, now(), "cut off")
                        raise
                if isinstance(end, Answered):
                    return self._answered(attempts, end.value)
                used = self._count_failure(attempts, end)
                delay = retries.delay_after(end)
                said = end.envelope, delay or 0.0
                attempts.end(self.log, now(), "failed", *said, used=used)
                self.recorder.note_failure(call, end, delay or 0.0)
                if delay is None:
                    return self._failed(attempts, end)
                attempts.retried += (end.envelope,)
                self.counts.retried += 1
                self.counts.repeated += not not_sent(end.envelope)
                await attempts.note_not_executed(end.envelope)
                self.progress()
                with self.admission.gate.waiting():
                    await self.sleep(delay)
        finally:
            attempts.correct_budgets(Amount())

    async def take(self, call: Call) -> Answered[str] | Failed:
        """Return the end of a call that a batch has answered: `call.lane.said`.

        Nothing is sent, and nothing is counted as paid: the collector counted it when
        it came.
        """
        bound = call.copied()
        try:
            with outside_chunk(), taking(call.lane):
                answer = await bound(**key_argument(bound.func, ""))
            self.counts.made += 1
            return Answered(call.encode(answer))
        except Exception as raised:  # noqa: BLE001 -- the caller reads the end
            failure = call.classify(as_failure(raised), self.clock(), 0)
            return Failed(failure, as_failure(raised))

    async def reserve(self, call: Call) -> Reservation | None:
        """Reserve the estimate of a call that a batch will answer; None: no budget.

        Raises:
            TransientError: `runtime.budget.reserved`, `runtime.budget.day_reserved`.
            PermanentError: `runtime.budget.no_price`.
        """
        admission = self.admission
        with admission.gate.waiting():
            await admission.gate.wait()
            budgets = await admission.binding_budgets(call.dependency)
            if budgets is None:
                return None
            waits = not admission.gate.always_open
            return await budgets.reserve(call, admission.latest_start(), waits=waits)

    async def _look_up_again(
        self, attempts: CallAttempts
    ) -> Answered[Any] | Failed | None:
        """Look the effect up if an attempt may have been executed; None: send."""
        if all(map(not_executed, attempts.retried)):
            return None
        end = await self.look_up(attempts.call, attempts.sent_key, attempts.made)
        return None if is_unknown(end) else end

    async def look_up(
        self, call: Call, sent_key: str, made: int = 0
    ) -> Answered[Any] | Failed:
        """Return what the provider knows of an effect; None: nothing.

        A request may still be in flight when the provider knows nothing. The lookup is
        repeated once that request cannot be executed any more.
        """
        if call.lookup is None:
            return Answered(None)
        attempts = CallAttempts(call, sent_key, made)
        end = await self._send(attempts, call.lookup)
        if is_unknown(end) and self.in_flight.remaining_s:
            await self.in_flight.wait()
            end = await self._send(attempts, call.lookup)
        return end

    async def _send_in_turn(self, attempts: CallAttempts) -> Answered[Any] | Failed:
        """Call the dependency once the first request of its prefix was answered.

        That wait comes before the admission: neither a limit nor the time of the
        attempt counts it.
        """
        bound, warming = attempts.call.bound, attempts.call.dependency.warming
        assert warming is not None  # noqa: S101 -- as the caller has seen
        with self.admission.gate.waiting():
            turn = await warming.turn(*bound.args, **bound.keywords)
        end: Answered[Any] | Failed | None = None
        try:
            end = await self._send(attempts)
            return end
        finally:
            turn.end(answered=end is not None and has_answer(end))

    async def _send(
        self,
        attempts: CallAttempts,
        lookup: functools.partial[Awaitable[Any]] | None = None,
    ) -> Answered[Any] | Failed:
        """Call the dependency's function, or its lookup, once and within all limits.

        This is the one place that classifies what a dependency raises.
        """
        call, dependency = attempts.call, attempts.call.dependency
        bound, key = lookup or call.copied(), attempts.sent_key
        gate = self.admission.gate
        execution = plain_execution if lookup else self.execution
        self.check_lease()  # an interrupted stage that still calls waits for nothing
        try:
            held = await self.admission.admit(attempts, is_lookup=lookup is not None)
        except (PermanentError, TransientError) as error:
            return self.own_failure(attempts, error)
        async with held:
            permit = await self.admission.request_permit(call, attempts.start)
            if isinstance(permit, PieceworkError):
                return self.own_failure(attempts, permit)
            health, failure = Health.UNKNOWN, None  # cut off
            started = micros(self.clock())
            if lookup is None:
                attempts.begin(asyncio.get_running_loop().time())
                self.recorder.note_sent(call)
            try:
                async with asyncio.timeout(call.timeout_s), execution(call, key):
                    self.check_lease()
                    with outside_chunk(), taking(call.lane), gate.in_lane(call.lane):
                        if attempts.turn is not None:
                            attempts.turn.note_sent()
                        answer = await bound(**key_argument(bound.func, key))
                health = Health.SUCCESS
                self.admission.note_answer(dependency)
                return Answered(answer)
            except BaseException as raised:  # noqa: BLE001 -- the caller reads the end
                # No local name for the error: its traceback has this frame.
                failure = call.classify(as_failure(raised), self.clock(), attempts.made)
                if dependency.breaker is not None:
                    health = dependency.breaker.health(failure)
                return Failed(failure, as_failure(raised))
            finally:
                since = self.counts.failing_since(dependency.name)
                self.admission.note_end(call, permit, health, failure, started, since)
                if permit and permit.probe_until and health is Health.FAILURE:
                    self.counts.probe_failure = failure

    def _count_failure(
        self, attempts: CallAttempts, end: Failed | None
    ) -> Usage | None:
        """Count an attempt that failed, if it was sent; None: it was cut off.

        Return what its answer used; None: it is not known.
        Like the bill, a budget counts a failed attempt if its usage is known, or if the
        provider may have executed it without our knowing: a time-out, a connection that
        broke, a stop, a cancel, a lost claim.
        """
        known = None
        if attempts.began_at is not None:
            self.counts.failed += end is None or not not_sent(end.envelope)
            dependency = attempts.call.dependency
            self.in_flight.note_failure(dependency, attempts.began_at, end)
            usage = end and getattr(end.error, "facts", {}).get("usage")
            if isinstance(usage, Usage):
                known = self.usage.report_failed(attempts.call, usage, self.counts)
                self._correct(attempts, known)
            elif may_still_execute(end):
                self._count_possibly_paid(attempts)
        # A lookup may find the answer, which then counts.
        if attempts.call.dependency.lookup is None:
            attempts.correct_budgets(Amount())
        return known

    def _count_possibly_paid(self, attempts: CallAttempts) -> None:
        """Count an attempt for which the provider may charge, whatever comes next.

        A repetition of a pure call costs money again. An effect that can be repeated or
        looked up happens once.
        """
        call, effect = attempts.call, attempts.call.dependency.effect
        if effect is Effect.PURE:
            self.usage.report_cut_off(call)
        if effect in {Effect.PURE, Effect.NON_IDEMPOTENT} and attempts.reservation:
            attempts.correct_budgets(attempts.reservation.estimate)

    def _may_retry(self, attempts: CallAttempts, failure: ErrorEnvelope) -> bool:
        """Take a retry token, unless the breaker would reject the retry."""
        dependency = attempts.call.dependency
        if not attempts.call.may_repeat_after(failure):
            return False
        if self.admission.rejected_for_s(attempts.call) is not None:
            return False
        taken = self.retry_tokens[dependency.name].take(self.clock())
        attempts.retry_budget_exhausted = self.enforce_retry_budget and not taken
        return not attempts.retry_budget_exhausted

    def _answered(self, attempts: CallAttempts, answer: Any) -> Answered[str] | Failed:
        """Count an answer and return it encoded, as it is stored."""
        call = attempts.call
        if attempts.began_at is not None:
            tokens = self.retry_tokens[call.dependency.name]
            tokens.add_success(call.dependency.retry.retry_ratio, self.clock())
        ended_at = asyncio.get_running_loop().time()
        usage = self.usage.report_paid(call, answer, self.counts)
        used = None if call.dependency.usage is None else usage
        level = self.answered_level
        attempts.end(self.log, ended_at, "answered", used=used, level=level)
        self._correct(attempts, usage)
        if self.counts.forward:
            self.counts.end_times.append(self.clock())
        try:
            text = call.encode(answer)
        except PermanentError as error:
            return self.own_failure(attempts, error)
        if attempts.ledger is not None:
            attempts.ledger.hold(call.key, text)
        return Answered(text)

    def _correct(self, attempts: CallAttempts, usage: Usage) -> None:
        """Correct the fleet's schedule and the budgets by what an answer has used.

        The usage does not know tokens that are 0, or a price of None: the estimate
        stands.
        """
        used = Amount(usage.tokens_in + usage.tokens_out, usage.whole_amounts[2])
        if used.tokens and attempts.limiter is not None:
            attempts.limiter.correct(attempts.estimate, used.tokens)
        if attempts.reservation is not None:
            known = used.or_else(attempts.reservation.estimate)
            is_free = usage.usd is not None and not used.nano_usd
            attempts.correct_budgets(replace(known, nano_usd=0) if is_free else known)

    async def count_found(self, call: Call, answer: Any) -> None:
        """Count an answer that a lookup has found, and that no record counts.

        The slice of a dead worker counts the call, too, until the recount. A worker
        that lives gave its reservation back, so the budget would lack the call. If it
        had the answer and lost its claim, the budget counts the call twice: that stops
        the job early, never late. Without an estimate no budget counts the call: the
        answer must not be lost for that.
        """
        found = CallAttempts(call, "")
        budgets = await self.admission.binding_budgets(call.dependency)
        if budgets is not None:
            with suppress(PermanentError):
                found.reservation = await budgets.reserve(call, inf, waits=False)
        # The caller records the answer next: no interrupt comes between.
        self._correct(found, self.usage.report_found(call, answer, self.counts))

    def _failed(self, attempts: CallAttempts, end: Failed) -> Failed:
        """Return the end of a call that is not retried: its last failure, or a limit.

        The fleet sets the limit: the breaker is open, or the retry budget is exhausted.
        """
        end = self._judged(attempts.call, end)
        mark(end.error, end.envelope)
        limit = self._fleet_limit(attempts, end.envelope)
        if limit is None:
            return replace(end, earlier=attempts.retried)
        telemetry.emit(
            self.log,
            "retry.budget_exhausted",
            dependency=attempts.call.dependency.name,
            error_code=limit.code,
        )
        limit.__cause__ = end.error
        self.counts.unretried[attempts.call.dependency.name] = end.envelope
        attempts.retried += (end.envelope,)
        return self.own_failure(attempts, limit)

    def _judged(self, call: Call, end: Failed) -> Failed:
        """Return a failure to connect as that of this chunk, if only it cannot.

        The dependency has answered another call since the chunk first waited for it.
        """
        since = self.counts.breaker_since
        if not end.envelope.is_not_connected or not since or self.counts.made:
            return end
        if not self.admission.has_answered_since(call.dependency, since):
            return end
        alone = end.envelope.model_copy(update={"dependency": ""})
        return replace(end, envelope=alone)

    def _fleet_limit(
        self, attempts: CallAttempts, failure: ErrorEnvelope
    ) -> TransientError | None:
        """Return the error of a call whose retries the fleet ended, not the call."""
        name = attempts.call.dependency.name
        if not failure.retryable or failure.code in WAITS_FOR_THE_FLEET:
            return None
        seconds = self.admission.rejected_for_s(attempts.call)
        if seconds is not None:
            return self.admission.open_error(name, seconds)
        if attempts.retry_budget_exhausted:
            return budget_exhausted_error(name, failure)
        return None

    def own_failure(self, attempts: CallAttempts, error: PieceworkError) -> Failed:
        """Return the end of a call that Piecework itself ended."""
        now, made = self.clock(), attempts.made
        failure = attempts.call.classify(error, now, made, ours=True)
        return Failed(failure, error, earlier=attempts.retried)


def is_unknown(end: Answered[Any] | Failed) -> bool:
    """Return whether a lookup has found that the provider knows nothing."""
    return isinstance(end, Answered) and end.value is None


def has_answer(end: Answered[Any] | Failed) -> bool:
    """Return whether the dependency has answered, also with what does not fit."""
    if isinstance(end, Answered):
        return True
    return isinstance(getattr(end.error, "facts", {}).get("usage"), Usage)
