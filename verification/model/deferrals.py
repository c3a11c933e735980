"""Model how a chunk waits for a dependency with an open breaker: its cost and its end.

The model has one chunk, one dependency and two stages; the second is the pivot. Its
worker dies at any step. The whole model covers competing claims.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from verification.model.small_model import Has, Move, SmallModel

#: Attempts, deferrals without a retry left, and recovery claims.
ATTEMPTS, MAX_DEFERRALS, RECOVERIES = 2, 2, 1
#: Waits for an open breaker; a chunk that compensates has twice as many.
MAX_WAITS = 2
PIVOT = 1
#: The claims since the pivot was known to be untried; NEVER: it may have been tried.
NEVER = 3


class Pc(IntEnum):
    """The position of the worker; without a worker, the chunk waits."""

    NONE, STAGE, COMPENSATE, ENDED = range(4)


class State(NamedTuple):
    """A chunk and its worker, and the dependency.

    Attributes:
        attempts: The counted attempts; `failed`: the claims that failed or died.
        waits: The waits for an open breaker.
        fresh: Whether this claim entered the stage; `called`: whether it made the call.
        compensates: Whether its direction is to compensate.
        present: The effects that are present at the provider, as bits.
        down: Whether no call is answered; `open`: whether the breaker refuses calls.
        retries: Whether any is left; `recovers`: whether an outage ends.
    """

    pc: Pc = Pc.NONE
    cursor: int = 0
    attempts: int = 0
    failed: int = 0
    recoveries: int = 0
    recovering: int = 0
    deferrals: int = 0
    waits: int = 0
    untried: int = NEVER
    fresh: int = 0
    called: int = 0
    compensates: int = 0
    present: int = 0
    down: int = 0
    open: int = 0
    retries: int = 1
    recovers: int = 1


def moves(has: Has, s: State) -> Iterator[Move]:
    yield from provider_and_breaker(s)
    if s.pc == Pc.ENDED:
        return
    if s.pc == Pc.NONE:
        yield claim(s)
        return
    yield Move(released(s, failed=1), "worker DIES", fault=True)
    if s.pc == Pc.COMPENSATE:
        yield from compensate(has, s)
    elif s.open:
        yield from refuse(has, s)
    else:
        yield from call(has, s)


def provider_and_breaker(s: State) -> Iterator[Move]:
    if not s.down:
        yield Move(s._replace(down=1), "provider GOES DOWN", fault=True)
        if s.open:
            yield Move(s._replace(open=0), "breaker closes")
    elif s.recovers:
        yield Move(s._replace(down=0), "provider recovers")
        if not s.open:
            yield Move(s._replace(open=1), "breaker opens", fault=True)


def claim(s: State) -> Move:
    """Claim the chunk for an attempt, or for recovery once attempts are spent."""
    untried = min(s.untried + 1, NEVER)
    claimed = s._replace(pc=Pc.STAGE, fresh=0, called=0, untried=untried)
    if s.attempts < ATTEMPTS:
        claimed = claimed._replace(attempts=s.attempts + 1, recovering=0)
        pc = Pc.COMPENSATE if s.compensates else Pc.STAGE
        return Move(claimed._replace(pc=pc), "claims for an attempt")
    unspent = s.failed < ATTEMPTS
    broken = "only failures spend attempts" if unspent else ""
    claimed = claimed._replace(recoveries=s.recoveries + 1, recovering=1)
    if claimed.recoveries > RECOVERIES:
        abandoned = "" if s.failed > ATTEMPTS else "an outage abandons no compensation"
        return Move(end(claimed), "abandons it", broken=broken or abandoned)
    if s.compensates or s.cursor < PIVOT:
        compensating = claimed._replace(pc=Pc.COMPENSATE, compensates=1)
        return Move(compensating, "claims to compensate", broken=broken)
    return Move(end(claimed), "dead-letters it at the unknown pivot", broken=broken)


def call(has: Has, s: State) -> Iterator[Move]:
    """Call as the stage: the provider answers, refuses, or does not answer."""
    done = s._replace(present=s.present | 1 << s.cursor, called=1)
    if not s.down:
        if s.cursor == PIVOT:
            yield Move(end(done), "SUCCEEDS")
        else:
            checkpointed = done._replace(cursor=PIVOT, fresh=1, called=0)
            yield Move(checkpointed, "checkpoints the stage")
        yield from fail(has, s, "is refused by the provider", refused=True)
        return
    if not s.retries:
        for after in (s._replace(called=1), done):
            yield from without_retry(has, after)
        return
    for after, suffix in ((s, ""), (done, ", but was executed")):
        called = after._replace(called=1)
        if s.called:
            yield from fail(has, called, f"fails again{suffix}", refused=False)
        else:
            yield Move(called, f"fails{suffix}", fault=True)


def is_pivot_untried(has: Has, s: State) -> bool:
    """Return whether the pivot certainly did not happen."""
    if s.cursor < PIVOT:
        return True
    untried = s.untried == 1 or (s.untried < NEVER and not has("claims since untried"))
    called = bool(s.called) and has("called in this claim")
    return bool(s.fresh or untried) and not called


def refuse(has: Has, s: State) -> Iterator[Move]:
    """Defer the chunk, until the limit of waits for an open breaker."""
    if s.waits < MAX_WAITS or not has("limit of breaker waits"):
        yield from defer(has, with_breaker_wait(s), "is refused by the breaker")
    else:
        yield from fail(has, s, "has waited too often", refused=True)


def with_breaker_wait(s: State) -> State:
    """Count a wait for an open breaker."""
    return s._replace(waits=min(s.waits + 1, 2 * MAX_WAITS))


def without_retry(has: Has, s: State) -> Iterator[Move]:
    """Defer the chunk because no retry is left, until the limit of deferrals."""
    if s.deferrals < MAX_DEFERRALS or not has("limit of deferrals"):
        yield from defer(has, s, "has no retry left")
    else:
        yield from fail(has, s, "has no retry left, again", refused=False)


def defer(has: Has, s: State, label: str) -> Iterator[Move]:
    """RUNNING -> WAITING: the attempt of the claim is refunded."""
    untried = 0 if s.cursor == PIVOT and is_pivot_untried(has, s) else NEVER
    if s.compensates:
        untried = s.untried
    refund = {"attempts": s.attempts - 1}
    if s.recovering and has("recovery claim in refund"):
        refund = {"recoveries": s.recoveries - 1}
    if not has("refund in defer"):
        refund = {}
    deferrals = min(s.deferrals + 1, MAX_DEFERRALS)
    after = released(s._replace(deferrals=deferrals, untried=untried, **refund))
    wrong = after.attempts < min(after.failed, ATTEMPTS)
    broken = "only a counted attempt is refunded" if wrong else ""
    yield Move(after, f"{label}, and is deferred", broken=broken)


def fail(has: Has, s: State, label: str, *, refused: bool) -> Iterator[Move]:
    """Retry, compensate, or dead-letter if the pivot may have happened."""
    if not refused and s.attempts < ATTEMPTS:
        yield Move(released(s, failed=1), f"{label}, and waits for its retry")
    elif s.cursor < PIVOT or (refused and is_pivot_untried(has, s)):
        after = s._replace(pc=Pc.COMPENSATE, compensates=1)
        yield Move(after, f"{label}, and compensates")
    else:
        yield Move(end(s), f"{label}, and is dead-lettered")


def compensate(has: Has, s: State) -> Iterator[Move]:
    """Compensate the first stage; a permanent failure is final."""
    capped = has("limit of deferrals in compensation")
    bounded = s.deferrals == MAX_DEFERRALS and capped
    waits = s.waits < 2 * MAX_WAITS or not has("higher limit in compensation")
    if s.open and waits:
        yield from defer(has, with_breaker_wait(s), "may not compensate")
    elif s.open:
        yield Move(end(s), "has waited too often, and leaves the effect")
    elif s.down and not s.retries and not bounded:
        yield from defer(has, s, "cannot compensate, has no retry left")
    elif s.down:
        yield Move(end(s), "cannot compensate, and leaves the effect")
    else:
        wrong = s.present >> PIVOT & 1
        broken = "nothing is compensated past the pivot" if wrong else ""
        yield Move(end(s), "has compensated", broken=broken)


def released(s: State, failed: int = 0) -> State:
    """Release the chunk: it waits for the next claim."""
    failed = min(s.failed + failed, ATTEMPTS + RECOVERIES)
    return s._replace(pc=Pc.NONE, failed=failed, fresh=0, called=0, recovering=0)


def end(s: State) -> State:
    return State(pc=Pc.ENDED)


def ended(s: State) -> bool:
    return s.pc == Pc.ENDED


DEFERRALS = SmallModel("deferrals", State(), moves, ended)
#: The provider never answers, no breaker opens, and no retry is left.
OUTAGE = SmallModel("outage", State(down=1, retries=0, recovers=0), moves, ended)
#: The breaker never closes: only the limit of waits ends the chunk.
OPEN_BREAKER = SmallModel(
    "open breaker", State(down=1, open=1, recovers=0), moves, ended
)
