"""The rows of the batch lane: requests of claims, their answers, batches, collectors.

    WORK#<n>#BATCH#<fence>#<part>     a request: calls of one claim to one model
    WORK#<n>#ANSWER#<custom id>#<fence>   the answer of a call
    T#acme#BATCHES#<model>   ASKED#…   a request that no batch has yet
                             BATCH#…   a batch that has not ended
                             ENDED#…   one that has
    ACTIVE           COLLECTOR#T#acme#<model>   the collector of a model for a tenant

A request is OPEN until its batch is over: then one write closes it, counts what its
answers cost on the chunk, and wakes the chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from piecework.domain import keys
from piecework.domain.budget import NOTHING, Amount
from piecework.domain.fields import (
    Count,
    Decoded,
    Flag,
    Number,
    OptionalText,
    ShownText,
    Text,
    mapping,
    raw,
)
from piecework.domain.moments import iso, moment
from piecework.domain.packed import packed, read_packed
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.rows import Row
from piecework.domain.strict_json import MIB, Bounds

#: Seconds by which a collector is late before a worker is started for it: several looks
#: of a worker that runs.
LATE_S: Final = 60.0
#: Requests of claims that one batch may have, for its row and its collector's memory.
#: And jobs, each with a name in the row.
MOST_MEMBERS: Final = 10_000
MOST_JOBS: Final = 2_000
#: A row with so many members, each a list of seven numbers.
MEMBERS: Final = Bounds(4 * MIB, nodes=20 * MOST_MEMBERS)
#: Letters of the key of a call that name it in a batch: providers take 64.
ID_LETTERS: Final = 63


def custom_id(key: str) -> str:
    """Return the name of a call in a batch."""
    return key[:ID_LETTERS]


@dataclass(frozen=True, slots=True)
class Asked:
    """The last request of a call.

    Attributes:
        fence: The claim that asked, and the generation of its chunk.
        since: When its call first asked, in seconds since 1970.
        due: When the call goes direct if nothing came.
        tries: How often the call has asked.
        is_open: Whether a batch may still answer it.
        goes_direct: Whether the collector has sent the call back: too few asked.
        failed: The error of its row; None: it has none.
    """

    fence: int
    gen: int
    since: float
    due: float
    tries: int = 1
    is_open: bool = True
    goes_direct: bool = False
    failed: Mapping[str, Any] | None = None


#: How views name the phase of requests that no batch has yet.
GATHERED: Final = "GATHERED"


class BatchPhase(StrEnum):
    """The states of a batch in its row."""

    #: It is about to be created, or its creation is in doubt.
    PLANNED = "PLANNED"
    #: Its provider has it, and its id is known.
    CREATED = "CREATED"


#: What an operator may want of a batch: its answers are taken, and the rest goes on, or
#: goes direct.
CANCEL: Final = "cancel"
DIRECT: Final = "direct"


class RequestState(StrEnum):
    """The states of a request."""

    OPEN = "OPEN"
    #: Its batch is over: what was answered is in the answers of the chunk.
    OVER = "OVER"
    #: It was sent back: its calls go direct.
    DIRECT = "DIRECT"


@dataclass(frozen=True, slots=True)
class Request:
    """Calls of one claim that ask one model, as the claim ends with them.

    Attributes:
        key, model: The key and the name of the model.
        since: When the first of its calls first asked, in seconds since 1970.
        until: When `within` of its lane is over.
        due: When its chunk goes direct if nothing came.
        bodies: By the custom id of each call: the provider's request as JSON.
        size: The bytes of its rows in a batch.
        held: What a budget has reserved for them.
    """

    key: str
    model: str
    since: float
    until: float
    due: float
    tries: int
    bodies: Mapping[str, bytes]
    size: int
    held: Amount = NOTHING

    @property
    def content(self) -> bytes:
        """The object of the request: its custom ids, each in a line, then its bodies.

        The first lines have a fixed length, so that a reader may ask for them alone.
        """
        ids = "".join(f"{each}\n" for each in self.bodies).encode()
        return ids + b"".join(body + b"\n" for body in self.bodies.values())


#: Bytes of a line with a custom id.
ID_LINE: Final = ID_LETTERS + 1


def read_content(content: bytes, rows: int) -> Iterator[tuple[str, bytes]]:
    """Yield the custom id and the body of each call of a request."""
    ids = content[: rows * ID_LINE].decode().split()
    yield from zip(ids, content[rows * ID_LINE :].splitlines(), strict=True)


@dataclass(frozen=True, slots=True)
class RequestRow(Row):
    """A request of a claim for answers of a batch."""

    WHAT = "A request for a batch"

    key = Text("The key of its model.")
    model = ShownText("The name of its model.")
    gen = Number("The generation of the chunk.")
    fence = Number("The claim that made it.")
    part = Number("Its number among the requests of the claim.")
    stored_state = Text("`OPEN`, `OVER` or `DIRECT`.", "state")
    rows = Number("The number of its calls.")
    packed_ids = Decoded(
        raw, "The custom ids of its calls, as compressed JSON.", "ids", kind="bytes"
    )
    since = Text("When the first of its calls first asked.")
    until = Text("When `within` of its lane is over.")
    due = Text("When its calls go direct, unless their batch is over before.")
    tries = Number("How often its calls have asked.")
    failed = Decoded(
        mapping, "The errors of its rows, by the custom id of the call.", kind="map"
    )

    @property
    def state(self) -> RequestState:
        """Its state."""
        return RequestState(self.stored_state)

    @property
    def ids(self) -> list[str]:
        """The custom ids of its calls."""
        return [str(each) for each in read_packed(self.item, "ids", self.what)["ids"]]

    def of(self, custom_id: str) -> Asked:
        """Return it as the request of one of its calls."""
        return Asked(
            self.fence,
            self.gen,
            moment(self.since),
            moment(self.due),
            self.tries,
            is_open=self.state is RequestState.OPEN,
            goes_direct=self.state is RequestState.DIRECT,
            failed=self.failed.get(custom_id),
        )


@dataclass(frozen=True, slots=True)
class AnswerRow(Row):
    """The answer of a call that a batch gave."""

    WHAT = "An answer of a batch"

    custom_id = Text("The beginning of the key of the call.")
    fence = Number("The claim that asked.")
    batch = ShownText("The provider's id of the batch.")


@dataclass(frozen=True, slots=True)
class Member:
    """A request, as the batch that has it names it."""

    job: str
    chunk: int
    gen: int
    fence: int
    part: int
    rows: int
    held_tokens: int = 0
    held_nano_usd: int = 0

    @property
    def held(self) -> Amount:
        """What budgets have reserved for it."""
        return Amount(self.held_tokens, self.held_nano_usd)


@dataclass(frozen=True, slots=True)
class AskedRow(Row):
    """A request that no batch has yet."""

    WHAT = "A gathered request"

    tenant = Text("Whose it is.")
    job = Text("Its job.")
    chunk = Number("Its chunk.", least=keys.JOIN_CHUNK)
    gen = Number("The generation of the chunk.")
    fence = Number("The claim that made it.")
    part = Number("Its number among the requests of the claim.")
    rows = Number("The number of its calls.")
    size = Number("Its bytes in a batch.")
    held_tokens = Count("The tokens that budgets have reserved for it.")
    held_nano_usd = Count("The billionths of a dollar that budgets have reserved.")
    asked_at = Text("When it was made.")
    stored_until = Text("When `within` of its lane is over.", "until")

    @property
    def at(self) -> float:
        """When it was made, in seconds since 1970."""
        return moment(self.asked_at)

    @property
    def until(self) -> float:
        """When it has waited long enough, in seconds since 1970."""
        return moment(self.stored_until)

    @property
    def of(self) -> JobRef:
        """Its job."""
        return JobRef(self.tenant, self.job)

    @property
    def member(self) -> Member:
        """It as the member of a batch."""
        place = self.chunk, self.gen, self.fence, self.part
        held = self.held_tokens, self.held_nano_usd
        return Member(self.job, *place, self.rows, *held)


@dataclass(frozen=True, slots=True)
class PlannedRow(Row):
    """A batch."""

    WHAT = "A batch"

    tenant = Text("Whose it is.")
    digest = Text("The hash of its requests.")
    model = ShownText("The name of its model.")
    provider = ShownText("Its provider.")
    stored_phase = Text("`PLANNED` or `CREATED`; of one that has ended: why.", "phase")
    id = OptionalText("The provider's id; empty: it is not known yet.", "batch")
    rows = Number("The number of its rows.")
    packed_members = Decoded(
        raw,
        "Its requests by job, as compressed JSON: numbers of chunk, generation, claim, "
        "part and rows, and what budgets have reserved.",
        "members",
        kind="bytes",
    )
    planned_at = Text("When it was planned.")
    tried_at = Text("When its creation was tried last.")
    until = Text("When it is cancelled.")
    next_at = OptionalText("When its provider is asked for it next.")
    polls = Count("How often its provider was asked.")
    answered = Count("The rows that are answered.")
    failed = Count("The rows that failed.")
    wanted = OptionalText(
        "What an operator wants: `cancel` or `direct`; empty: nothing."
    )
    wanted_by = OptionalText("The operator; empty: none.")
    wanted_why = OptionalText("The reason of the operator.")
    jobs = Decoded(raw, "Of one that has ended: the first of its jobs.", kind="list")
    is_cancelled = Flag("Whether its provider was asked to cancel it.", "cancelled")
    ended_at = OptionalText("When it ended; empty: it has not.")
    unreadable = Count("The lines of its output without an outcome.")
    doubts = Count("How often the provider may have it beside the known one.")

    @property
    def members(self) -> list[Member]:
        """Its requests."""
        found = read_packed(self.item, "members", self.what, MEMBERS)
        return [Member(job, *each) for job, some in found.items() for each in some]

    def ref(self, member: Member) -> ChunkRef:
        """Return the chunk of a member."""
        return ChunkRef(self.tenant, member.job, member.chunk)


def pack_members(members: Sequence[Member]) -> bytes:
    """Return the members of a batch as its row has them."""
    found: dict[str, list[tuple[int, ...]]] = {}
    for each in members:
        numbers = each.chunk, each.gen, each.fence, each.part, each.rows
        held = each.held_tokens, each.held_nano_usd
        found.setdefault(each.job, []).append((*numbers, *held))
    return packed(found)


@dataclass(frozen=True, slots=True)
class CollectorRow(Row):
    """The collector of a model: which process has it, and when it is needed."""

    WHAT = "The collector of a model"

    model = ShownText("The name of the model.")
    provider = ShownText("Its provider.")
    stored_billed = OptionalText("Its name in a bill, without a tier.", "billed")
    next_at = OptionalText("When a collector is needed; empty: nothing is open.")
    owner = OptionalText("The worker that collects; empty: none does.")
    lease_until = OptionalText("Until when it does; empty: none does.")
    fence = Count("How often it was taken.")
    called_at = OptionalText("When an operator has called it; empty: that is done.")
    direct_at = OptionalText("The requests that were gathered until then go direct.")
    open_batches = Count("The batches that were open after its last pass.")
    open_rows = Count("The rows of these batches.")
    open_since = OptionalText("When the first of them was planned; empty: without any.")
    error = OptionalText("The code with which its last pass failed; empty: it did not.")
    took = Decoded(
        raw, "The seconds that its last batches took, the newest last.", kind="list"
    )
    notes = Count("How often a need of a collector was noted.")
    noted_at = OptionalText("When the last one was; empty: none was.")
    nudge = Decoded(
        mapping,
        "A chunk that waits for it, with its queue, to start a worker.",
        kind="map",
    )

    @property
    def billed(self) -> str:
        """The name of the model in a bill, without a tier."""
        return self.stored_billed or self.model

    def is_late(self, now: float) -> bool:
        """Return whether a collector is needed, and no worker is it."""
        if not self.next_at or self.lease_until > iso(now):
            return False
        return moment(self.next_at) + LATE_S <= now

    @property
    def durations(self) -> list[float]:
        """The seconds that its last batches took."""
        found = self.took if isinstance(self.took, list) else []
        return [float(each) for each in found if isinstance(each, int | float)]
