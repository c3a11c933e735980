"""Count what each job costs in this process, until the counts are written.

Requests and units are counted in thousandths, so that a receive with messages of
several jobs is shared exactly. An attribute's name says what it counts:
`op__UpdateItem__units`, `busy_ms`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from piecework.cost.attribution import (
    UNOWNED,
    WHOLE,
    Owner,
    Reader,
    Receipts,
    Seen,
    Shares,
    keeps_costs,
)
from piecework.domain.refs import JobRef

# ── count every request that a client sends ───────────────────────────────────
#
# The hooks are the SDK's own events. So no caller can forget to count, and the counts
# are the requests that were sent.

#: The key of a request's notes between its events.
NOTE = "piecework.cost"
#: Operations that report their consumed capacity on request.
REPORTING = frozenset(
    {"GetItem", "Query", "Scan", "PutItem", "UpdateItem", "DeleteItem"}
    | {"TransactWriteItems", "BatchExecuteStatement", "BatchWriteItem"}
)


def listen(client: Any, meter: CostMeter) -> None:
    """Let a meter count all requests of a client."""
    service = str(client.meta.service_model.service_name)
    events = client.meta.events
    events.register("before-parameter-build", asked)
    events.register("response-received", answered_to(meter, service))


def asked(
    params: dict[str, Any], model: Any, context: dict[str, Any], **_: Any
) -> None:
    """Note the request, and request its consumed capacity."""
    body = params.get("Body")
    # The uploaded file has been read when the answer arrives, so its size is noted.
    kept = params if body is None else {**params, "Body": body_size(body)}
    context[NOTE] = [model.name, kept, 0]
    if model.name in REPORTING:
        params["ReturnConsumedCapacity"] = "TOTAL"


def body_size(body: Any) -> int:
    """Return the size of an upload: bytes, or the rest of a file."""
    if isinstance(body, bytes | bytearray):
        return len(body)
    at = body.tell()
    end = body.seek(0, 2)
    body.seek(at)
    return int(end - at)


def answered_to(meter: CostMeter, service: str) -> Callable[..., None]:
    """Return the hook that counts an attempt when it has ended."""

    def answered(parsed_response: Any, context: dict[str, Any], **_: Any) -> None:
        note = context.get(NOTE)
        if note is None:
            return
        operation, params, attempts = note
        note[2] += 1
        again = attempts > 0
        if service == "dynamodb" and keeps_costs(params):
            if not again:
                return  # the counts that it writes include it
            parsed_response = None
        try:
            meter.saw(service, operation, params, parsed_response, again=again)
        except Exception:  # noqa: BLE001 -- counting must not fail a request
            meter.unread += 1

    return answered


# ── busy time of a process ────────────────────────────────────────────────────
#
# The clock of shares runs at full speed for one chunk, and at a tenth of it for ten.
# A chunk's share is the advance of that clock while the chunk was in progress. All
# shares together are the time with at least one chunk in progress.

T = TypeVar("T")


@dataclass(slots=True)
class SharedTime(Generic[T]):
    """What is in progress, how often, and the clock of shares."""

    clock: Callable[[], float] = time.monotonic
    held: dict[T, int] = field(default_factory=dict)
    _count: int = 0
    _shares: float = 0.0
    _at: float = 0.0

    def start(self, thing: T) -> float:
        """Start the time of something; return the value that `stop` needs."""
        self._move_on()
        self._count += 1
        self.held[thing] = self.held.get(thing, 0) + 1
        return self._shares

    def stop(self, thing: T, taken: float) -> float:
        """Stop the time of something; return its share in seconds."""
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


#: The process that makes a request; part of the key of the counts.
Actor: TypeAlias = Literal["orchestrator", "worker", "reconciler", "operator"]

_ACTOR: ContextVar[Actor | None] = ContextVar("actor", default=None)


@cache
def names_of(operation: str) -> tuple[str, str, str]:
    """Return the names of an operation's counts: requests, units, bytes."""
    stem = f"op__{operation}__"
    return stem + "requests", stem + "units", stem + "bytes"


def current_actor() -> Actor | None:
    """Return who makes the requests of this task; None: the actor of the process."""
    return _ACTOR.get()


@contextmanager
def acting_as(actor: Actor) -> Iterator[None]:
    """Count the requests inside for another actor: a reconciler beside a worker."""
    before = _ACTOR.set(actor)
    try:
        yield
    finally:
        _ACTOR.reset(before)


@dataclass(slots=True)
class Account:
    """The counts of a job that are not written yet.

    Attributes:
        requests: The number of counted requests.
        found, written: Whether this process has found, or written, an item of the job.
            A message may name a job that does not exist. The counts of an operator who
            only reads are not stored.
        ended: The job has ended in this process, so its counts need not wait.
    """

    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    requests: int = 0
    found: bool = False
    written: bool = False
    ended: bool = False


@dataclass(slots=True)
class CostMeter:
    """Counts the requests of one process to AWS, for each job.

    Attributes:
        actor: The actor of this process, unless `acting_as` names another.
        trusted: Whether AWS itself reports the consumed capacity; emulators misreport.
        unread: Requests that could not be counted, because of a defect of Piecework.
        busy_time: The chunks in progress, and the shares of each job.
        logged: Returns the bytes that this process has logged so far, as they are
            billed.
    """

    actor: Actor = "operator"
    trusted: bool = False
    unread: int = 0
    accounts: dict[tuple[Actor, Owner], Account] = field(default_factory=dict)
    busy_time: SharedTime[JobRef] = field(default_factory=SharedTime)
    logged: Callable[[], int] = lambda: 0
    _logged: int = 0
    _receipts: Receipts = field(default_factory=Receipts)
    _reader: Reader = field(init=False)

    def __post_init__(self) -> None:
        """Create the reader, which asks for the chunks in progress."""
        self._reader = Reader(self.trusted, self._in_progress, self._receipts)

    def saw(
        self, service: str, operation: str, params: Any, answer: Any, *, again: bool
    ) -> None:
        """Count an attempt at a request, and the capacity that its answer reports."""
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
        """Return the account of a job and of the current actor."""
        return self.account_of((_ACTOR.get() or self.actor, owner))

    def account_of(self, place: tuple[Actor, Owner]) -> Account:
        """Return the account of a job and an actor."""
        found = self.accounts.get(place)
        if found is None:
            found = self.accounts[place] = Account()
        return found

    def _in_progress(self) -> Shares:
        """Share a request among the jobs whose chunks are in progress."""
        held = self.busy_time.held
        total = sum(held.values())
        if not total:
            return UNOWNED
        parts = {job: WHOLE * number // total for job, number in held.items()}
        first = next(iter(parts))
        parts[first] += WHOLE - sum(parts.values())
        return tuple(parts.items())

    def working(self, job: JobRef, *, ends: bool = False) -> Working:
        """Count the share of this process's time that a chunk takes inside.

        `ends` says that the job ends here, as a join does: its counts need not wait.
        """
        return Working(self, job, ends)

    def called(self, job: JobRef, size: int) -> None:
        """Count the bytes that a call of a job sent to its provider."""
        self.account(job).counts["call_bytes"] += size

    def take_logged(self) -> int:
        """Return the bytes that were logged since the last time."""
        logged = self.logged()
        before, self._logged = self._logged, logged
        return logged - before

    def forget(self, job: JobRef) -> None:
        """Give the counts of a deleted job to the requests without an owner."""
        for actor, owner in list(self.accounts):
            if owner == job:
                left = self.accounts.pop((actor, owner)).counts
                unowned = self.account_of((actor, None)).counts
                for name, count in left.items():
                    unowned[name] += count

    def close(self, place: tuple[Actor, Owner]) -> dict[str, int]:
        """Return the counts of an account for writing, and start a new account.

        Counts that are not written are added to the requests without an owner.
        """
        actor, _ = place
        account = self.accounts.pop(place)
        counts = {name: count for name, count in account.counts.items() if count}
        if counts and account.found and (account.written or actor != "operator"):
            self.accounts[place] = Account(found=True, written=account.written)
            return counts
        unowned = self.account_of((actor, None)).counts
        for name, count in counts.items():
            unowned[name] += count
        return {}

    @property
    def unowned(self) -> dict[str, int]:
        """The counts of requests without an owner: empty polls, reads of lists."""
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
        """Start the chunk's time."""
        self._taken = self.meter.busy_time.start(self.job)

    def __exit__(self, *_: object) -> None:
        """Stop the chunk's time, and count its share."""
        seconds = self.meter.busy_time.stop(self.job, self._taken)
        account = self.meter.account(self.job)
        account.counts["busy_ms"] += round(seconds * 1000)
        # Mostly its own lines; those of chunks beside it belong to jobs beside it.
        account.counts["log_bytes"] += self.meter.take_logged()
        account.ended = account.ended or self.ends
