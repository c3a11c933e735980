"""Decide what happens to a chunk after a stage has failed: the whole policy.

The retries inside the call are spent by then. Where the pivot lies, seen from the
failed stage, selects the column:

    class               pivot ahead              pivot in doubt    pivot behind
    transient, state    retry; last: compensate  retry; last: dead retry; last: dead
    semantic            replan, else compensate  dead              replan, else dead
    policy              fallback, else           dead              fallback, else dead
                        compensate
    permanent           compensate               dead              dead

"Retry" schedules a new attempt, which restores the last checkpoint from the tables.
"Compensate" compensates the stages in reverse order and then writes the dead letter.
"Dead" writes the dead letter only. No stage is ever compensated after the pivot, or
where the pivot may have happened.

A chunk that waits for an open breaker is deferred, and no attempt is spent. So is a
chunk whose call was not connected, for `free_probe_s`. After that, or if the dependency
answers other calls meanwhile, that failure is decided as any other. The wait for a
breaker ends in two cases. A probe of the chunk fails a second time, after
`free_probe_s`. The input may be the cause, so the failure of the probe is decided as
any other. Or the chunk was deferred too often, or for too long: it cannot succeed.

A stage runs another variant only if none of its effects may have happened. The calls of
the other variant have other idempotency keys, and would repeat the effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from typing import Any, TypeAlias

from piecework.calls.call import CallCounts
from piecework.context import Context
from piecework.domain.moments import iso
from piecework.domain.outcome import (
    MAX_BUDGET_DEFERRALS,
    CompensationResult,
    DeadLettered,
    Deferred,
    Retry,
)
from piecework.domain.protocols import Checkpoints
from piecework.errors import ErrorEnvelope
from piecework.errors.codes import ErrorClass
from piecework.pipelines import REPLAN, Pipeline, Stage, fallback_names
from piecework.resilience.breaker import OPEN_CODE, PROBE_RETRY_S
from piecework.resilience.retry import BUDGET_CODE, WAITS_FOR_THE_FLEET, blocked_on

#: Codes of failures that may come after the effect of a stage or a call.
POST_EFFECT_CODES = {
    "runtime.effect.unknown",
    "runtime.value.too_large",
    "runtime.value.unserialisable",
    "runtime.value.unreadable",
}
#: The code of a chunk that was deferred too often or for too long.
EXHAUSTED_CODE = "runtime.deferral.exhausted"
#: The next attempt waits `uniform(0, min(CAP, BASE * 2**attempt))` seconds. This is the
#: full jitter of the AWS Architecture Blog's "Exponential Backoff and Jitter".
BASE = 2.0
CAP = 300.0
#: The jitter, as a share of the declared wait: not all chunks return at once.
DECLARED_JITTER = 0.1
#: The cap in seconds where the retry budget is exhausted: it fills up again soon.
DEFERRAL_CAP = 30.0
#: The cap where AWS does not answer the worker, or refuses it. It is cheap for hours,
#: and the chunks continue soon after the outage.
OUTAGE_CAP = 60.0
#: The longest wait in seconds that a provider may request. A daily quota comes back
#: within it; a provider that requests years is called again after it.
RETRY_AFTER_CAP = 86_400.0
#: Every cap is reached before so many doublings; a float overflows at 1,024.
DOUBLINGS = 10


@dataclass(frozen=True, slots=True)
class RecoveryLimits:
    """The limits of a chunk, the clock and the random source of a run.

    Attributes:
        max_deferrals, max_deferred_s: How often a chunk is deferred for an open
            breaker, and for how many seconds since its last progress.
        free_probe_s: For how many of these seconds neither a failed probe nor a
            failure to connect spends an attempt.
    """

    max_attempts: int
    clock: Callable[[], float]
    rng: Random
    max_deferrals: int = 2_000
    max_deferred_s: float = 86_400.0
    free_probe_s: float = 3_600.0


class PivotPosition(Enum):
    """The position of the pivot relative to the failed stage."""

    AHEAD = auto()
    IN_DOUBT = auto()
    BEHIND = auto()


@dataclass(frozen=True, slots=True)
class Compensate:
    """Compensate, then write a dead letter."""


Decision: TypeAlias = Retry | Deferred | DeadLettered | Compensate


def pivot_position(
    pipeline: Pipeline,
    index: int,
    failure: ErrorEnvelope,
    checkpoints: Checkpoints,
    ctx: Context[Any],
) -> PivotPosition:
    """Return the position of the pivot relative to the failed stage at `index`.

    A failed pivot counts as not executed only after its first attempt in its first
    claim. The error must not be transient, or about the answer, and no effect of the
    stage may have happened. If the circuit breaker refused the call, it had no quota or
    it was not connected, the pivot was not attempted. This holds for any number of
    claims.
    """
    if index > pipeline.pivot_index or pipeline.pivot_name in checkpoints.completed:
        return PivotPosition.BEHIND
    if index < pipeline.pivot_index:
        return PivotPosition.AHEAD
    counts = ctx.caller.counts
    claimed_before = (
        checkpoints.reached_stage == ctx.stage and counts.untried != ctx.stage
    )
    may_have_happened = (
        claimed_before
        or counts.stage_retried
        or ctx.stage in ctx.caller.ledger.stages_with_effects()
        or failure.code in POST_EFFECT_CODES
    )
    waits = failure.code in WAITS_FOR_THE_FLEET or failure.is_not_connected
    not_called = waits and not counts.stage_failed
    refused = not_called or not failure.retryable
    return (
        PivotPosition.AHEAD
        if refused and not may_have_happened
        else PivotPosition.IN_DOUBT
    )


def next_variant(
    stage: Stage, failure: ErrorEnvelope, attempted: Sequence[str], pivot: PivotPosition
) -> str | None:
    """Return the variant that a stage without remaining effects runs next, or None.

    `attempted`: the variants that the stage has run in this attempt.
    """
    if pivot is PivotPosition.IN_DOUBT:
        return None
    match failure.error_class:
        case ErrorClass.SEMANTIC if stage.replan:
            replans = attempted.count(REPLAN)
            return REPLAN if replans < stage.max_replans else None
        case ErrorClass.POLICY:
            left = (name for name in fallback_names(stage) if name not in attempted)
            return next(left, None)
        case _:
            return None


def failure_to_decide(
    failure: ErrorEnvelope, counts: CallCounts, limits: RecoveryLimits
) -> ErrorEnvelope:
    """Return the failure to decide on.

    It is another one if the chunk must not wait any longer for a dependency. Then it is
    the failure of its probe, the failure that was not retried, or `exhausted_failure`.
    A failure to connect that is decided as any other names no dependency.
    """
    spent = counts.budget_deferrals >= MAX_BUDGET_DEFERRALS
    if failure.code == BUDGET_CODE and spent:
        return counts.unretried.get(failure.dependency, failure)
    if failure.is_not_connected:
        return exhausted_failure(failure, counts, limits) or failure
    if failure.code != OPEN_CODE or not failure.dependency:
        return failure
    again = counts.probe_failure is not None and counts.failed_probes
    if again and waited_s(counts, limits) >= limits.free_probe_s:
        return counts.probe_failure or failure
    return exhausted_failure(failure, counts, limits) or failure


def waited_s(counts: CallCounts, limits: RecoveryLimits) -> float:
    """Return the seconds since a chunk's first deferral for an outage, or 0.

    A call that was answered in this claim is progress: the time begins anew.
    """
    since = counts.breaker_since
    return limits.clock() - since if since and not counts.made else 0.0


def exhausted_failure(
    failure: ErrorEnvelope,
    counts: CallCounts,
    limits: RecoveryLimits,
    *,
    times: int = 1,
) -> ErrorEnvelope | None:
    """Return the failure of a chunk that waited too often or too long for a breaker.

    `times`: a factor on both limits. None: it may be deferred again. A failure to
    connect stays what it is, and only the chunk does not wait for the dependency.
    """
    if failure.is_not_connected:
        free = waited_s(counts, limits) < times * limits.free_probe_s
        alone = failure.model_copy(update={"dependency": ""})
        return None if free and failure.dependency else alone
    if failure.code != OPEN_CODE:
        return None
    since = counts.breaker_since
    often = counts.breaker_deferrals >= times * limits.max_deferrals
    if not often and waited_s(counts, limits) < times * limits.max_deferred_s:
        return None
    began = f", since {iso(since)}" if since else ""
    return failure.model_copy(
        update={
            "code": EXHAUSTED_CODE,
            "error_class": ErrorClass.PERMANENT,
            "message": f"The chunk was deferred {counts.breaker_deferrals} times"
            f"{began}, because {failure.dependency} could not be called."
            f" Last: {failure.message}",
            "retry_after": None,
            "dependency": "",
        }
    )


def decide(  # noqa: PLR0913 -- facts of the chunk
    failure: ErrorEnvelope,
    *,
    attempts_left: int,
    attempt: int,
    pivot: PivotPosition,
    rng: Random,
    deferrals: int = 0,
    budget_deferrals: int = 0,
    probed: bool = False,
    declared_s: float | None = None,
) -> Decision:
    """Return the decision for a chunk whose stage failed after all variants.

    `deferrals`: how often the chunk was deferred before without spending an attempt;
    `budget_deferrals`: those among these for an exhausted retry budget.
    `probed`: as for `deferral_delay`. `declared_s`: as for `backoff`.
    """
    dependency = blocked_on(failure)
    has_budget_left = budget_deferrals < MAX_BUDGET_DEFERRALS
    if dependency and (failure.code != BUDGET_CODE or has_budget_left):
        wait = deferral_delay(failure, attempt, deferrals, rng, probed=probed)
        return Deferred(failure, wait, dependency)
    may_pass = failure.error_class in {ErrorClass.TRANSIENT, ErrorClass.STATE}
    if may_pass and attempts_left > 0:
        return Retry(failure, backoff(failure, attempt, rng, declared_s))
    match pivot:
        case PivotPosition.AHEAD:
            return Compensate()
        case PivotPosition.IN_DOUBT:
            return DeadLettered(failure, CompensationResult.PIVOT_UNKNOWN)
        case PivotPosition.BEHIND:
            return DeadLettered(failure, CompensationResult.PAST_PIVOT)


def backoff(
    failure: ErrorEnvelope, attempt: int, rng: Random, declared_s: float | None = None
) -> float:
    """Return the seconds before the next attempt.

    The jitter is added to the time that the provider requested. If the ladder of the
    pipeline declares a longer time, the jitter is added to that.
    """
    requested = retry_after(failure)
    if declared_s is None:
        return requested + rng.uniform(0, exponential(CAP, attempt))
    return max(requested, declared_s) * (1 + rng.uniform(0, DECLARED_JITTER))


def deferral_delay(
    failure: ErrorEnvelope,
    attempt: int,
    deferrals: int,
    rng: Random,
    *,
    probed: bool = False,
) -> float:
    """Return the seconds for which a chunk is deferred.

    If a breaker is open, a random part of up to half the delay is added. So the blocked
    chunks do not all return at once. More is added if the chunk was deferred often,
    because probes may take long. `probed`: a probe of the chunk has failed. Other
    chunks return before it, so that one of them makes the next probe.

    If the retry budget is exhausted, or the call was not connected, the delay grows
    with each deferral, because deferrals do not increase `attempt`.
    """
    seconds = retry_after(failure)
    if failure.code == OPEN_CODE:
        spread = max(PROBE_RETRY_S, seconds / 2, min(DEFERRAL_CAP, deferrals / 2))
        return seconds + spread * probed + rng.uniform(0, spread)
    if failure.code in WAITS_FOR_THE_FLEET:
        return seconds + rng.uniform(0, max(PROBE_RETRY_S, seconds / 2))
    cap = exponential(DEFERRAL_CAP, attempt + deferrals)
    return seconds + rng.uniform(0, cap)


def outage_delay(outages: int, rng: Random) -> float:
    """Return the seconds for which an outage of the store defers a chunk.

    The delay grows with each outage of the chunk, up to `OUTAGE_CAP`.
    """
    cap = exponential(OUTAGE_CAP, outages)
    return rng.uniform(cap / 2, cap)


def retry_after(failure: ErrorEnvelope) -> float:
    """Return the seconds that the provider requested, from 0 to `RETRY_AFTER_CAP`."""
    return min(RETRY_AFTER_CAP, max(0.0, failure.retry_after or 0.0))


def exponential(cap: float, times: int) -> float:
    """Return `BASE` seconds doubled `times` times, at most `cap`."""
    return min(cap, BASE * 2.0 ** min(times, DOUBLINGS))
