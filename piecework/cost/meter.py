"""The counts of one process: what each job has cost so far that nobody wrote down yet.

Requests and units are counted in thousandths, so that a receive that brought messages
of several jobs is shared out to the last part. An attribute's name says what it counts:
`op__UpdateItem__units`, `paid__gpt_4o__tokens_in`, `busy_ms`.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from piecework.calls.usage import AnswerSource
from piecework.cost.attribution import (
    NOBODY,
    WHOLE,
    Owner,
    Reader,
    Receipts,
    Seen,
    Shares,
    keeps_costs,
)
from piecework.dependency import Usage
from piecework.domain.model import JobRef

# Hear of every request that a client sends, each attempt of the SDK's own included.
#
# It hangs on the SDK's own events, so that no caller can forget to count, and so that
# what is counted is what was sent.

#: Where a request's own notes are kept between its events.
NOTE = "piecework.cost"
#: Operations that say what they consumed if they are asked to.
REPORTING = frozenset(
    {"GetItem", "Query", "Scan", "PutItem", "UpdateItem", "DeleteItem"}
    | {"TransactWriteItems"}
)


def listen(client: Any, meter: CostMeter) -> None:
    """Let a meter hear of all that a client asks."""
    service = str(client.meta.service_model.service_name)
    events = client.meta.events
    events.register("before-parameter-build", asked)
    events.register("response-received", answered_to(meter, service))


def asked(
    params: dict[str, Any], model: Any, context: dict[str, Any], **_: Any
) -> None:
    """Note what is asked, and ask what it will have consumed."""
    body = params.get("Body")
    # What is uploaded has been read when the answer comes.
    kept = params if body is None else {**params, "Body": body_size(body)}
    context[NOTE] = [model.name, kept, 0]
    if model.name in REPORTING:
        params["ReturnConsumedCapacity"] = "TOTAL"


def body_size(body: Any) -> int:
    """Return the bytes of what is uploaded: bytes, or a file from where it stands."""
    if isinstance(body, bytes | bytearray):
        return len(body)
    at = body.tell()
    end = body.seek(0, 2)
    body.seek(at)
    return int(end - at)


def answered_to(meter: CostMeter, service: str) -> Callable[..., None]:
    """Return what counts an attempt once it was answered, or was not."""

    def answered(parsed_response: Any, context: dict[str, Any], **_: Any) -> None:
        note = context.get(NOTE)
        if note is None:
            return
        operation, params, attempts = note
        note[2] += 1
        again = attempts > 0
        if service == "dynamodb" and keeps_costs(params):
            if not again:
                return  # it has counted itself, and what it consumes
            parsed_response = None
        try:
            meter.saw(service, operation, params, parsed_response, again=again)
        except Exception:  # noqa: BLE001 -- a bill must not fail what it is about
            meter.unread += 1

    return answered


# A process's busy time, shared evenly at each moment among all that it has in hand.
#
# The clock of shares runs at one second a second for a single chunk, and at a tenth of
# that for ten. So a chunk's share is what that clock has moved on while it was in hand,
# and all shares together are the time in which anything was.

T = TypeVar("T")


@dataclass(slots=True)
class SharedTime(Generic[T]):
    """What is in hand, how often, and the clock of shares."""

    clock: Callable[[], float] = time.monotonic
    held: dict[T, int] = field(default_factory=dict)
    _count: int = 0
    _shares: float = 0.0
    _at: float = 0.0

    def take(self, thing: T) -> float:
        """Take something in hand; return what to let go of it with."""
        self._move_on()
        self._count += 1
        self.held[thing] = self.held.get(thing, 0) + 1
        return self._shares

    def let_go(self, thing: T, taken: float) -> float:
        """Let go of something; return its share, in seconds."""
        self._move_on()
        self._count -= 1
        self.held[thing] -= 1
        if not self.held[thing]:
            del self.held[thing]
        return self._shares - taken

    def _move_on(self) -> None:
        now = self.clock()
        if self._count:
            self._shares += (now - self._at) / self._count
        self._at = now


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
        self, job: JobRef, dependency: str, answered: AnswerSource, usage: Usage
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
