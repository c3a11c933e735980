"""What the calls of all chunks of one worker share."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from math import inf

import structlog

from piecework.calls.admission import Admission
from piecework.calls.attempts import Attempts, new_token_buckets
from piecework.calls.call import Call
from piecework.calls.fleet_breaker import BreakerRegistry
from piecework.calls.fleet_budgets import FleetBudgets, JobBudgets
from piecework.calls.fleet_limits import FleetLimits
from piecework.calls.in_flight import CallPacer
from piecework.calls.usage import AnswerSource, UsageReporter, sent_bytes
from piecework.dependency import Usage
from piecework.resilience.retry import RetryTime, RetryTokenBucket
from piecework.runtime import Runtime
from piecework_worker.call_limiter import CallLimiter
from piecework_worker.claim_state import ClaimState


@dataclass(slots=True)
class SharedCalls:
    """The slots, breakers, limits and budgets of one worker.

    Attributes:
        retry_tokens: The tokens that a retry needs, by dependency.
        pacer: Spreads the start of calls over rounds of the event loop.
        release_at: Loop time at which the worker, once it stops, interrupts its chunks.
    """

    slots: CallLimiter
    breakers: BreakerRegistry
    limits: FleetLimits
    budgets: FleetBudgets
    retry_tokens: defaultdict[str, RetryTokenBucket] = field(
        default_factory=new_token_buckets
    )
    pacer: CallPacer = field(default_factory=CallPacer)
    release_at: float = inf

    def released_at(self) -> float:
        """Return when the worker interrupts its chunks; infinite: it does not stop."""
        return self.release_at

    def attempts_of(
        self,
        state: ClaimState,
        budgets: JobBudgets,
        rt: Runtime,
        log: structlog.stdlib.BoundLogger,
    ) -> Attempts:
        """Return what makes the attempts of one claim's calls."""
        lease, settings = state.lease, rt.settings
        job = lease.claim.ref.of

        def note(call: Call, answered: AnswerSource, usage: Usage) -> None:
            if answered == "paid":
                rt.cost.called(job, sent_bytes(call, usage))
            state.note_usage(call, answered, usage)
            attempts.recorder.note_usage(call, answered, usage)

        admission = Admission(
            self.slots,
            rt.clock,
            lease.record_progress,
            self.breakers,
            self.limits,
            budgets,
            state.latest_start,
            state.gate,
            self.released_at,
        )
        attempts = Attempts(
            retry_time=RetryTime(
                settings.retry_time_s, max_delay=settings.longest_wait_s
            ),
            admission=admission,
            rng=rt.rng,
            clock=rt.clock,
            log=log,
            progress=lease.record_progress,
            check_lease=lease.check_deadline,
            retry_tokens=self.retry_tokens,
            counts=state.counts,
            usage=UsageReporter(note, log),
            pacer=self.pacer,
            answered_level=settings.attempt_log,
            acquired_at=lease.acquired_at,
        )
        attempts.recorder.fence = lease.claim.fence
        attempts.recorder.keeps = settings.record_calls
        return attempts
