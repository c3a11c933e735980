"""The counts of one process: what each job has cost so far that nobody wrote down yet.

Requests and units are counted in thousandths, so that a receive that brought messages
of several jobs is shared out to the last part. An attribute's name says what it counts:
`op__UpdateItem__units`, `paid__gpt_4o__tokens_in`, `busy_ms`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeAlias

from piecework.metering.owners import NOBODY, WHOLE, Owner, Receipts, Shares
from piecework.metering.reading import Reader, Seen
from piecework.metering.sharing_time import SharedTime
from piecework.model import JobRef
from piecework.spending import Answered
from piecework.usage import Usage

#: Who asks: the rest of the item's key.
Actor: TypeAlias = Literal["orchestrator", "worker", "reconciler", "operator"]

#: Counts of one job, beyond which another model is one of the others; and characters
#: of a model's name: the names of counts are part of what is written.
MOST_COUNTS = 200
NAME_LENGTH = 48

_ACTOR: ContextVar[Actor | None] = ContextVar("actor", default=None)
_PLAIN = re.compile(r"\W+", re.ASCII)


def plain(name: str) -> str:
    """Return a model's name as it stands in the names of counts."""
    return _PLAIN.sub("_", name)[:NAME_LENGTH]


@cache
def names_of(operation: str) -> tuple[str, str, str]:
    """Return the names of an operation's counts: requests, units, bytes."""
    stem = f"op__{operation}__"
    return stem + "requests", stem + "units", stem + "bytes"


@contextmanager
def acting_as(actor: Actor) -> Iterator[None]:
    """Count what is asked inside as somebody's: a reconciler beside a worker."""
    before = _ACTOR.set(actor)
    try:
        yield
    finally:
        _ACTOR.reset(before)


@dataclass(slots=True)
class Account:
    """The counts of a job that are not written down.

    Attributes:
        requests: How many requests they come from.
        found, written: Whether this process has found, or written, anything of the
            job: a message may name one that is not there, and an operator who only
            looks leaves nothing behind.
        ended: The job has ended here: nothing is gained by waiting.
    """

    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    requests: int = 0
    found: bool = False
    written: bool = False
    ended: bool = False


@dataclass(slots=True)
class CostMeter:
    """Counts what one process asks of AWS and of models, for each job.

    Attributes:
        actor: Who this process is, unless `acting_as` says otherwise.
        trusted: Whether what answers say of consumed capacity is AWS's own word.
        unread: Requests that it could not make out; a fault of ours.
    """

    actor: Actor = "operator"
    trusted: bool = False
    unread: int = 0
    accounts: dict[tuple[Actor, Owner], Account] = field(default_factory=dict)
    hands: SharedTime[JobRef] = field(default_factory=SharedTime)
    _receipts: Receipts = field(default_factory=Receipts)
    _reader: Reader = field(init=False)

    def __post_init__(self) -> None:
        """Begin with nothing counted."""
        self._reader = Reader(self.trusted, self._in_hand, self._receipts)

    def saw(
        self, service: str, operation: str, params: Any, answer: Any, *, again: bool
    ) -> None:
        """Count an attempt at a request, and what its answer says that it consumed."""
        seen = self._reader.read(service, operation, params, answer)
        for owner, parts in seen.shares:
            self._add(operation, owner, parts, seen, again=again)

    def _add(
        self, operation: str, owner: Owner, parts: int, seen: Seen, *, again: bool
    ) -> None:
        account = self.account(owner)
        counts = account.counts
        account.requests += 1
        account.found = account.found or seen.found
        account.written = account.written or seen.written
        requests, units, size = names_of(operation)
        counts[requests] += seen.requests * parts
        if seen.units:
            counts[units] += round(seen.units * parts)
        if seen.sent or seen.fetched:
            counts[size] += seen.sent + seen.fetched
        if again:
            counts["retries"] += parts

    def account(self, owner: Owner) -> Account:
        """Return the account of a job, as whoever asks now."""
        return self.account_of((_ACTOR.get() or self.actor, owner))

    def account_of(self, place: tuple[Actor, Owner]) -> Account:
        """Return the account of a job and an actor."""
        found = self.accounts.get(place)
        if found is None:
            found = self.accounts[place] = Account()
        return found

    def _in_hand(self) -> Shares:
        """Share what is asked for all that is in hand among the jobs in hand."""
        held = self.hands.held
        total = sum(held.values())
        if not total:
            return NOBODY
        parts = {job: WHOLE * number // total for job, number in held.items()}
        first = next(iter(parts))
        parts[first] += WHOLE - sum(parts.values())
        return tuple(parts.items())

    def spent(
        self, job: JobRef, dependency: str, answered: Answered, usage: Usage
    ) -> None:
        """Count a call and what it cost, under its model's name or the dependency's."""
        counts = self.account(job).counts
        name = plain(usage.model or dependency)
        if len(counts) >= MOST_COUNTS and f"{answered}__{name}__calls" not in counts:
            name = "others"
        counts[f"{answered}__{name}__calls"] += 1
        for measure, amount in usage.amounts:
            counts[f"{answered}__{name}__{measure}"] += amount

    def working(self, job: JobRef, *, ends: bool = False) -> Working:
        """Count the share of this process's time that a job's chunk takes inside.

        Its join ends it: what is counted then need not wait for more.
        """
        return Working(self, job, ends)

    def close(self, place: tuple[Actor, Owner]) -> dict[str, int]:
        """Take the counts of an account that is to be written down, and open it anew.

        What is not to be becomes nobody's.
        """
        actor, _ = place
        account = self.accounts.pop(place)
        counts = {name: count for name, count in account.counts.items() if count}
        if counts and account.found and (account.written or actor != "operator"):
            self.accounts[place] = Account(found=True, written=account.written)
            return counts
        nobodys = self.account_of((actor, None)).counts
        for name, count in counts.items():
            nobodys[name] += count
        return {}

    @property
    def nobodys(self) -> dict[str, int]:
        """What was asked for no job in particular: empty polls, looks at lists."""
        found: dict[str, int] = defaultdict(int)
        for (_, owner), account in self.accounts.items():
            if owner is None:
                for name, count in account.counts.items():
                    found[name] += count
        return dict(found)


@dataclass(slots=True)
class Working:
    """The work on one chunk of a job."""

    meter: CostMeter
    job: JobRef
    ends: bool
    _taken: float = 0.0

    def __enter__(self) -> None:
        """Take the chunk in hand."""
        self._taken = self.meter.hands.take(self.job)

    def __exit__(self, *_: object) -> None:
        """Count its share."""
        seconds = self.meter.hands.let_go(self.job, self._taken)
        account = self.meter.account(self.job)
        account.counts["busy_ms"] += round(seconds * 1000)
        account.ended = account.ended or self.ends
