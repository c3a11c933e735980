"""Model how a chunk waits for a dependency with an open breaker: its cost and its end.

The model has one chunk of two stages, a step with a compensation and the pivot, both of
one dependency. Its worker dies at any step. The whole model covers the competition for
claims.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from verification.model.theme import Has, Move, Theme

#: Attempts, deferrals for want of a retry, and recovery claims.
ATTEMPTS, MAX_DEFERRALS, RECOVERIES = 2, 2, 1
#: Waits for an open breaker: of a chunk, and of one that compensates.
MAX_WAITS = 2
PIVOT = 1
#: The number of claims since the pivot was known to be untried; NEVER: it was tried, or
#: this is unknown.
NEVER = 3


class Pc(IntEnum):
    """The position of the worker; without a worker, the chunk waits."""

    NONE, STAGE, UNDO, ENDED = range(4)


class State(NamedTuple):
    """A chunk and its worker, and the dependency.

    Attributes:
        waits: Those for an open breaker.
        attempts: As counted; `failed`: claims that failed or died, as they were.
        fresh: Whether the stage was entered in this claim; `asked`: its call was made.
        back: Whether it is on its way back.
        stands: The effects that stand with the provider, as bits.
        down: Whether no call is answered; `open`: whether the breaker refuses them.
        retries: Whether any is left; `heals`: whether an outage ever ends.
    """

    pc: Pc = Pc.NONE
    cursor: int = 0
    attempts: int = 0
    failed: int = 0
    recoveries: int = 0
    winding: int = 0
    parks: int = 0
    waits: int = 0
    untried: int = NEVER
    fresh: int = 0
    asked: int = 0
    back: int = 0
    stands: int = 0
    down: int = 0
    open: int = 0
    retries: int = 1
    heals: int = 1


def moves(has: Has, s: State) -> Iterator[Move]:
    yield from outside(s)
    if s.pc == Pc.ENDED:
        return
    if s.pc == Pc.NONE:
        yield claims(s)
        return
    yield Move(rests(s, failed=1), "worker DIES", fault=True)
    if s.pc == Pc.UNDO:
        yield from undoes(has, s)
    elif s.open:
        yield from refused(has, s)
    else:
        yield from calls(has, s)


def outside(s: State) -> Iterator[Move]:
    if not s.down:
        yield Move(s._replace(down=1), "provider GOES DOWN", fault=True)
        if s.open:
            yield Move(s._replace(open=0), "breaker closes")
    elif s.heals:
        yield Move(s._replace(down=0), "provider is back")
        if not s.open:
            yield Move(s._replace(open=1), "breaker opens", fault=True)


def claims(s: State) -> Move:
    """Claim the chunk for an attempt, or for recovery once attempts are spent."""
    untried = min(s.untried + 1, NEVER)
    taken = s._replace(pc=Pc.STAGE, fresh=0, asked=0, untried=untried)
    if s.attempts < ATTEMPTS:
        taken = taken._replace(attempts=s.attempts + 1, winding=0)
        pc = Pc.UNDO if s.back else Pc.STAGE
        return Move(taken._replace(pc=pc), "claims for an attempt")
    early = s.failed < ATTEMPTS
    broken = "only what failed has spent its attempts" if early else ""
    taken = taken._replace(recoveries=s.recoveries + 1, winding=1)
    if taken.recoveries > RECOVERIES:
        left = "" if s.failed > ATTEMPTS else "an outage abandons no way back"
        return Move(ends(taken), "abandons it", broken=broken or left)
    if s.back or s.cursor < PIVOT:
        undoing = taken._replace(pc=Pc.UNDO, back=1)
        return Move(undoing, "claims to undo", broken=broken)
    return Move(ends(taken), "buries it, in doubt at the pivot", broken=broken)


def calls(has: Has, s: State) -> Iterator[Move]:
    """The stage's call: answered, or not, or plainly refused."""
    done = s._replace(stands=s.stands | 1 << s.cursor, asked=1)
    if not s.down:
        if s.cursor == PIVOT:
            yield Move(ends(done), "SUCCEEDS")
        else:
            on = done._replace(cursor=PIVOT, fresh=1, asked=0)
            yield Move(on, "checkpoints the step")
        yield from gives_up(has, s, "is plainly refused", said_no=True)
        return
    if not s.retries:
        for after in (s._replace(asked=1), done):
            yield from spent(has, after)
        return
    for after, behind in ((s, ""), (done, ", but it was done")):
        asked = after._replace(asked=1)
        if s.asked:
            yield from gives_up(has, asked, f"fails again{behind}", said_no=False)
        else:
            yield Move(asked, f"fails{behind}", fault=True)


def is_pivot_untried(has: Has, s: State) -> bool:
    """Return whether the pivot surely did not happen, by the present failure."""
    if s.cursor < PIVOT:
        return True
    untried = s.untried == 1 or (s.untried < NEVER and not has("fence of the untried"))
    asked = bool(s.asked) and has("asked in this claim")
    return bool(s.fresh or untried) and not asked


def refused(has: Has, s: State) -> Iterator[Move]:
    """The breaker refuses: the chunk waits, so often; then it cannot succeed."""
    if s.waits < MAX_WAITS or not has("waits for a breaker are bounded"):
        yield from puts_off(has, waits_once(s), "is refused by the breaker")
    else:
        yield from gives_up(has, s, "has waited too often", said_no=True)


def waits_once(s: State) -> State:
    """Count a wait for an open breaker."""
    return s._replace(waits=min(s.waits + 1, 2 * MAX_WAITS))


def spent(has: Has, s: State) -> Iterator[Move]:
    """No retry is left: it waits for one, so often; then it spends its attempts."""
    if s.parks < MAX_DEFERRALS or not has("waits for a retry are bounded"):
        yield from puts_off(has, s, "has no retry left")
    else:
        yield from gives_up(has, s, "has no retry left, again", said_no=False)


def puts_off(has: Has, s: State, label: str) -> Iterator[Move]:
    """RUNNING -> WAITING: the attempt of the claim is returned."""
    untried = 0 if s.cursor == PIVOT and is_pivot_untried(has, s) else NEVER
    if s.back:
        untried = s.untried
    given = {"attempts": s.attempts - 1}
    if s.winding and has("a recovery is handed back as such"):
        given = {"recoveries": s.recoveries - 1}
    if not has("what was counted is handed back"):
        given = {}
    parks = min(s.parks + 1, MAX_DEFERRALS)
    after = rests(s._replace(parks=parks, untried=untried, **given))
    robbed = after.attempts < min(after.failed, ATTEMPTS)
    broken = "no attempt is handed back that was not taken" if robbed else ""
    yield Move(after, f"{label}, and is put off", broken=broken)


def gives_up(has: Has, s: State, label: str, *, said_no: bool) -> Iterator[Move]:
    """A failure: retry, compensate, or dead-letter if the pivot may have happened."""
    if not said_no and s.attempts < ATTEMPTS:
        yield Move(rests(s, failed=1), f"{label}, and is parked")
    elif s.cursor < PIVOT or (said_no and is_pivot_untried(has, s)):
        yield Move(s._replace(pc=Pc.UNDO, back=1), f"{label}, and turns back")
    else:
        yield Move(ends(s), f"{label}, and is buried")


def undoes(has: Has, s: State) -> Iterator[Move]:
    """The step's compensation; a permanent failure is recorded and final."""
    capped = has("deferrals of a compensation are bounded")
    bounded = s.parks == MAX_DEFERRALS and capped
    waits = s.waits < 2 * MAX_WAITS or not has("a compensation waits twice as long")
    if s.open and waits:
        yield from puts_off(has, waits_once(s), "may not undo")
    elif s.open:
        yield Move(ends(s), "has waited too often, and leaves it standing")
    elif s.down and not s.retries and not bounded:
        yield from puts_off(has, s, "cannot undo, has no retry left")
    elif s.down:
        yield Move(ends(s), "cannot undo, and leaves it standing")
    else:
        past = s.stands >> PIVOT & 1
        broken = "nothing is undone past the pivot" if past else ""
        yield Move(ends(s), "has undone all", broken=broken)


def rests(s: State, failed: int = 0) -> State:
    """Release the chunk: it waits for the next claim."""
    failed = min(s.failed + failed, ATTEMPTS + RECOVERIES)
    return s._replace(pc=Pc.NONE, failed=failed, fresh=0, asked=0, winding=0)


def ends(s: State) -> State:
    return State(pc=Pc.ENDED)


def ended(s: State) -> bool:
    return s.pc == Pc.ENDED


PARKS = Theme("parks", State(), moves, ended)
#: It never answers, no breaker notices, and no retry is left.
HOPELESS = Theme("parks, hopeless", State(down=1, retries=0, heals=0), moves, ended)
#: Its breaker never closes: only its own limit ends the chunk.
SHUT = Theme("parks, shut", State(down=1, open=1, heals=0), moves, ended)
