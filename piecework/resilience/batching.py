"""What becomes of a call in the batch lane, and of a batch. Pure: no clock, no store.

    a call            no request yet                    -> it asks, and its chunk waits
                      its request is open               -> it waits on
                      the batch has its answer          -> it takes that
                      its batch is over without it      -> it asks again, or goes direct
    gathered requests fewer than `at_least`             -> direct
                      their job ends before a batch     -> direct
                      otherwise                         -> batches within the limits
    a batch           1, 2, 4 … 15 minutes              -> its provider is asked
                      `within` is over                  -> it is cancelled

`since`, the moment of the first request of a call, is kept when it asks again. So no
call waits longer than `within` of its lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from piecework.domain.batch import MOST_JOBS, MOST_MEMBERS, Asked
from piecework.resilience.lanes import Lane

#: The first and the longest pause between two questions for a batch.
FIRST_POLL_S: Final = 60.0
LONGEST_POLL_S: Final = 900.0
#: Requests for one call. The second may be refused with its whole batch, as the first.
MOST_REQUESTS: Final = 2
#: The part of `within` that must be left when a call asks again: a batch needs time.
LEFT_TO_ASK: Final = 0.5
#: Seconds after `within` at which a chunk goes direct although no collector has woken
#: it: until then the answers of a cancelled batch are taken.
GRACE_S: Final = 1800.0
#: Seconds after which a chunk that found an open request looks again, at the latest.
LOOK_AGAIN_S: Final = 900.0
#: Seconds without a call after which a stage waits for its batches.
QUIET_S: Final = 1.0
#: Seconds after the plan of a batch after which a provider that knows no batch of it
#: never received it: one that finds by digest, and one that only lists.
LOST_S: Final = 60.0
LOST_UNNAMED_S: Final = 600.0
#: Seconds before the deadline of a job in which its calls still go direct.
DIRECT_S: Final = 900.0
#: Batches whose duration is remembered, and the duration that is assumed without any.
REMEMBERED: Final = 20
ASSUMED_S: Final = 3600.0


class Batching(Protocol):
    """What a model offers to be asked in batches."""

    @property
    def key(self) -> str:
        """The same for models whose requests may be in one batch."""

    @property
    def provider(self) -> Any:
        """Its `BatchProvider`; None: this process has no client of it."""

    @property
    def most_row_bytes(self) -> int:
        """The most bytes of a row; a larger one goes direct."""

    def row_of(self, *args: Any, **kwargs: Any) -> tuple[str, int]:
        """Return the row of a request with the arguments of a call.

        That is the provider's request as JSON, and the bytes that it adds to a batch.
        """


# ── a call ────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Answer:
    """The last answer of a call: JSON, and the claim that asked."""

    text: str
    fence: int


@dataclass(frozen=True, slots=True)
class Take:
    """The call takes what its batch said: JSON of the answer, or an error.

    `fence`: the claim that asked.
    """

    said: str | Mapping[str, Any]
    fence: int


@dataclass(frozen=True, slots=True)
class Ask:
    """The call asks, and its chunk waits."""

    since: float
    tries: int = 1


@dataclass(frozen=True, slots=True)
class WaitOn:
    """The call waits on, until a moment in seconds since 1970."""

    until: float


@dataclass(frozen=True, slots=True)
class GoDirect:
    """The call goes direct, after so many seconds."""

    waited_s: float = 0.0


Step: TypeAlias = Take | Ask | WaitOn | GoDirect


def next_step(
    lane: Lane,
    answer: Answer | None,
    last: Asked | None,
    *,
    refused: int,
    gen: int,
    now: float,
) -> Step:
    """Return what a call does now.

    `refused`: the claim whose answer or error the stage has taken and failed by; 0:
    none. The next attempt goes direct, and a redrive asks anew. A redrive keeps another
    answer, and an open request.
    """
    if answer is not None and answer.fence > refused:
        return Take(answer.text, answer.fence)
    if last is None or (last.gen != gen and not last.is_open):
        return Ask(now)
    if last.is_open and now < last.due:
        return WaitOn(min(last.due, now + LOOK_AGAIN_S))
    if last.failed is not None and last.fence > refused:
        return Take(last.failed, last.fence)
    left = last.since + lane.within - now
    is_spent = last.is_open or last.goes_direct or last.tries >= MOST_REQUESTS
    if is_spent or last.fence <= refused or left < LEFT_TO_ASK * lane.within:
        return GoDirect(now - last.since)
    return Ask(last.since, last.tries + 1)


# ── the gathered requests of a model ──────────────────────────────────────────


class Gathered(Protocol):
    """The requests of a claim to one model, as they are gathered.

    Attributes:
        at: When they were made, in seconds since 1970.
        until: When `within` of the first of them is over.
    """

    @property
    def job(self) -> str:
        """Their job."""

    @property
    def rows(self) -> int:
        """How many they are."""

    @property
    def size(self) -> int:
        """Their bytes in a batch."""

    @property
    def at(self) -> float:
        """When they were made."""

    @property
    def until(self) -> float:
        """When they have waited long enough."""


class Limits(Protocol):
    """How large a batch may be: see `BatchLimits`."""

    @property
    def most_rows(self) -> int:
        """Rows of a batch."""

    @property
    def most_bytes(self) -> int:
        """Bytes of a batch."""

    @property
    def least_rows(self) -> int:
        """Rows of a batch, at least."""


@dataclass(frozen=True, slots=True)
class Gathering:
    """What becomes of the gathered requests of a model.

    Attributes:
        batches: Those that are sent, each list as one batch.
        direct: Those that go direct.
        rest: The last ones; those that follow are not read yet.
        next_at: When the others have been gathered; None: there are none.
    """

    batches: Sequence[Sequence[Any]]
    direct: Sequence[Any]
    next_at: float | None
    rest: Sequence[Any] = ()


def gather(
    found: Sequence[Gathered],
    lane: Lane,
    limits: Limits,
    now: float,
    *,
    more: bool = False,
) -> Gathering:
    """Divide the gathered requests of a tenant to a model into batches.

    They are sent once the first of them has waited for `gather`. `more`: others follow,
    with which the last batch may be filled.
    """
    ready_at = min((each.at for each in found), default=now) + lane.gather
    if not found or ready_at > now:
        return Gathering([], [], ready_at if found else None)
    batches, direct = list[Sequence[Gathered]](), list[Gathered]()
    least = max(lane.at_least, limits.least_rows)
    cuts = [*cut(sorted(found, key=lambda each: each.at), limits)]
    rest = cuts.pop() if more else []
    for batch in cuts:
        if sum(each.rows for each in batch) >= least:
            batches.append(batch)
        else:
            direct += batch
    return Gathering(batches, direct, None, rest)


def cut(found: Sequence[Gathered], limits: Limits) -> Iterator[list[Gathered]]:
    """Yield the requests in batches within the limits, in their order."""
    batch, jobs, rows, size = list[Gathered](), set[str](), 0, 0
    for each in found:
        over = rows + each.rows > limits.most_rows
        over = over or size + each.size > limits.most_bytes
        over = over or len(batch) >= MOST_MEMBERS
        over = over or (each.job not in jobs and len(jobs) >= MOST_JOBS)
        if batch and over:
            yield batch
            batch, jobs, rows, size = [], set(), 0, 0
        batch.append(each)
        jobs.add(each.job)
        rows, size = rows + each.rows, size + each.size
    if batch:
        yield batch


# ── a batch ───────────────────────────────────────────────────────────────────


def poll_after_s(polls: int) -> float:
    """Return the seconds until a batch is asked for again: 1, 2, 4 … 15 minutes."""
    return float(min(FIRST_POLL_S * 2 ** min(polls, 10), LONGEST_POLL_S))


def usual_s(took: Sequence[float]) -> float:
    """Return the seconds that 95 of 100 batches take, by the last ones."""
    if not took:
        return ASSUMED_S
    return sorted(took)[min(len(took) - 1, int(0.95 * len(took)))]


def is_too_late(deadline: float | None, took: Sequence[float], now: float) -> bool:
    """Return whether a job ends before a batch that is created now is likely to."""
    return deadline is not None and deadline - now < usual_s(took)


def must_leave(
    deadline: float | None, planned_at: float, took: Sequence[float], now: float
) -> bool:
    """Return whether a batch is cancelled for a job that ends before it is likely to.

    Its calls need time to go direct, too.
    """
    if deadline is None:
        return False
    likely_end = planned_at + usual_s(took)
    return deadline - now < max(likely_end - now, DIRECT_S)


def may_create_again(planned_at: float, now: float, *, finds_exactly: bool) -> bool:
    """Return whether a batch that its provider does not list was never created."""
    return now - planned_at >= (LOST_S if finds_exactly else LOST_UNNAMED_S)
