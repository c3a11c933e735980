"""Rows of the tables as types: code outside the store reads no attribute by its name.

A row keeps its item. A property checks the attribute that it returns. If an operator
has damaged the row, a use of that attribute raises `runtime.record.unreadable`.

    a chunk                     `piecework.domain.chunk`
    a job                       `piecework.domain.job`
    what claims wrote           here
    a notification              `piecework.domain.notification`
    a dead letter               `piecework.domain.dead_letter`
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from piecework.domain import keys, records
from piecework.domain.call_usage import CallUsage
from piecework.domain.fields import (
    AnyText,
    Count,
    Decoded,
    Flag,
    Number,
    OptionalNumber,
    OptionalText,
    Present,
    ShownNumber,
    ShownText,
    Text,
    mapping,
    name_set,
    raw,
    seconds,
)
from piecework.domain.moments import moment
from piecework.domain.packed import read_packed

if TYPE_CHECKING:
    from piecework.errors import ErrorEnvelope

#: Attributes that no document shows: the keys, the schema version and the expiry.
HIDDEN = frozenset({"pk", "sk", "v", "expires_at"})
#: Seconds by which a report of a worker may be late.
LATE_S: Final = 10.0


#: Bytes of an item in a write unit: an item of one byte more costs a second one.
UNIT_BYTES: Final = 1024


def item_bytes(value: Any) -> int:
    """Return the bytes of an item, or of a part of one, as DynamoDB bills them; about.

    A number has at most so many bytes: one for two digits, and one.
    """
    match value:
        case str() | bytes():
            return len(value.encode() if isinstance(value, str) else value)
        case Mapping():
            return 3 + sum(1 + len(n) + item_bytes(v) for n, v in value.items())
        case list() | tuple() | set() | frozenset():
            return 3 + sum(1 + item_bytes(each) for each in value)
        case _:
            return 1 + (len(str(value)) + 1) // 2


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table."""

    WHAT: ClassVar[str] = "A row"

    item: Mapping[str, Any]

    def pick(self, names: Collection[str]) -> dict[str, Any]:
        """Return those of the attributes that the row has."""
        return {name: self.item[name] for name in names if name in self.item}

    def document(self, names: Collection[str]) -> dict[str, Any]:
        """Return the attributes; None for each that the row does not have."""
        return {name: self.item.get(name) for name in names}

    @property
    def what(self) -> str:
        """The record in words, for messages."""
        return self.WHAT


@dataclass(frozen=True, slots=True)
class StageRow(Row):
    """The value of a completed stage, or a chunk's result."""

    WHAT = "The value of a stage"

    stage = Text("The name of the stage.")
    label = ShownText("The label of the chunk.")
    started_at = OptionalText("When the stage started.")
    finished_at = Text("When the stage completed.")
    worker = OptionalText("The worker that completed it.")
    code_version = ShownText("The code version of that worker; empty: not known.")
    attempt = OptionalNumber("The attempt of the chunk that completed it.")
    gen = OptionalNumber("The generation that completed it.")
    fence = OptionalNumber("The claim that completed it.")
    is_small = Present(
        "Whether it returned another value than `null`, up to 64 KiB; the value is it "
        "as JSON.",
        "value",
    )
    is_large = Present(
        "Whether it returned a larger one; the value is its object in the bucket.",
        "value_at",
    )
    value_sha256 = OptionalText("The hash of that object.")
    number = Count(
        "How many stages of the chunk were complete with it; 0: it is not known."
    )
    is_compensable = Flag("Whether the stage had a compensation.", "compensable")
    edited_by = OptionalText(
        "The operator who gave it another value; empty: it has its own."
    )
    shape = OptionalText(
        "The shape of the pipeline that completed it; empty: that of the job."
    )

    @property
    def claim(self) -> tuple[int, int]:
        """The generation and the fence of the claim that completed it."""
        return self.gen or 1, self.fence or 0

    @property
    def has_value(self) -> bool:
        """Whether the stage returned another value than `null`."""
        return self.is_small or self.is_large


@dataclass(frozen=True, slots=True)
class CompensationRow(Row):
    """The cause of a compensation."""

    WHAT = "The cause of a compensation"

    stage = Text("The stage in which it occurred.")
    error = Text("The error that is compensated: its envelope as JSON.")
    calls_gen = ShownNumber(
        "The generation in the keys of its calls; None: the row's own."
    )

    @property
    def cause(self) -> ErrorEnvelope:
        """The error that is compensated."""
        return read_error(self.item)


@dataclass(frozen=True, slots=True)
class CompensatedRow(Row):
    """A stage that was compensated, or whose compensation failed."""

    WHAT = "A compensated stage"

    stage = Text("The name of the stage.")
    gen = Count(
        "The generation in which it was compensated; a row without one: the first.",
        default=1,
    )
    finished_at = Text("When its compensation ended.")
    has_failed = Present(
        "Whether its compensation failed; the value is the error's envelope as JSON.",
        "error",
    )
    resolved_by = OptionalText("The operator who resolved it; empty: none did.")
    number = Count(
        "The number of the stage's row; 0: it had not completed, or an operator lets "
        "stay what it did."
    )

    @property
    def failure(self) -> ErrorEnvelope | None:
        """The error of the compensation; None: it succeeded."""
        return read_error(self.item) if self.has_failed else None


@dataclass(frozen=True, slots=True)
class EffectRow(Row):
    """An effect in the ledger."""

    WHAT = "An effect"

    key = Text("The key of the effect within its chunk.", "effect_key")
    state = Text("`INTENT`, `DONE`, `REFUSED`, `UNKNOWN` or `COMPENSATED`.")
    effect = Text("The declared kind, one of `Effect`.")
    stage = Text("The stage that caused it; see `keys.compensation_stage`.")
    called = ShownText("The function that was called.")
    arguments = ShownText("The beginning of the digest of its arguments.")
    dependency = ShownText("The dependency that was called.")
    code_version = ShownText("The code version of that claim; empty: not known.")
    gen = OptionalNumber("The generation of the key that the provider got.")
    fence = OptionalNumber("The claim that wrote its intent.")
    started_at = Text("When its intent was written.")
    max_duration_s = Decoded(
        seconds, "How long after that its request may execute.", kind="number"
    )
    has_ended = Present("Whether it has ended; the value is the time.", "ended_at")
    answer = OptionalText(
        "Its answer as JSON; empty: none, or an object in the bucket.", "value"
    )
    usage = Decoded(
        CallUsage.read,
        "What its call used, as the claim that was answered has reported.",
        "call_usage",
        kind="map",
    )
    paid_fence = ShownNumber("The claim that was answered; None: none was yet.")
    not_sent = Flag("Of a refused one: whether its request never left a worker.")
    stored_schema = AnyText(
        "Of an unknown one: the JSON schema of its answer; empty: any is accepted.",
        "answer_schema",
    )
    stored_resolved_at = AnyText(
        "When an operator resolved it; counts only if it equals `ended_at`.",
        "resolved_at",
    )
    resolved_by = OptionalText("The operator who resolved it; empty: none did.")
    resolve_reason = OptionalText("Why; empty: none did.")

    @property
    def answer_schema(self) -> str:
        """The JSON schema of its answer; it accepts any if the type is not known."""
        return self.stored_schema or "{}"

    @property
    def resolved_at(self) -> str:
        """When an operator resolved it; empty: its end is known from a worker."""
        at = self.stored_resolved_at
        return at if at == self.item.get("ended_at") else ""

    @property
    def was_not_sent(self) -> bool:
        """Whether its last request never left a worker."""
        return self.state == "REFUSED" and self.not_sent

    @property
    def may_be_uncounted(self) -> bool:
        """Whether its call may have been paid for, and no claim has counted it.

        One that was in doubt at its compensation has no end, either.
        """
        in_doubt = self.state in {"INTENT", "UNKNOWN"}
        undone = self.state == "COMPENSATED" and not self.has_ended
        return self.paid_fence is None and (in_doubt or undone)


@dataclass(frozen=True, slots=True)
class ErrorRow(Row):
    """The error that ended one claim."""

    WHAT = "An error on record"

    at = Text("When the claim ended.")
    worker = Text("The worker of the claim.")
    number = Number("The attempt that it was.", "attempt")
    was_deferred = Flag("Whether the claim spent no attempt.", "deferred")
    error = Text("The error: its envelope as JSON.")

    @property
    def attempt(self) -> tuple[Any, Any]:
        """The generation and the number of the attempt; not checked, only compared.

        A deferral ended no attempt: the next claim has the same number.
        """
        number = None if self.was_deferred else self.item.get("attempt")
        return self.item.get("gen"), number

    @property
    def failure(self) -> ErrorEnvelope:
        """The error."""
        return read_error(self.item)

    @property
    def facts(self) -> dict[str, Any]:
        """The error as a document, with its attempt, its time and its worker."""
        error = records.read_document(self.error, self.what)
        return {"attempt": self.number, "at": self.at, "worker": self.worker} | error


def told_once(errors: Sequence[ErrorRow]) -> list[ErrorRow]:
    """Return the errors without their repetitions.

    A claim that only compensates ends with the error of an earlier claim.
    """
    found: dict[str, ErrorRow] = {}
    for row in errors:
        found.setdefault(str(row.item.get("error", row.item)), row)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class CallsRow(Row):
    """A page of the call journal."""

    WHAT = "A page of the call journal"

    packed_answers = Decoded(
        raw,
        "The answers on the page, as compressed JSON: for each function that was "
        "called, their JSON by the key of the call. A sleep has only its key.",
        "answers",
        kind="bytes",
    )
    code_version = ShownText("The code version of its claim; empty: not known.")
    large = Decoded(
        mapping, "The objects of large answers, by the key of the call.", kind="map"
    )
    stored_count = ShownNumber("The number of both.", "count")
    usage = Decoded(
        CallUsage.read,
        "What all calls of its claim used up to this page, as on the chunk.",
        "call_usage",
        kind="map",
    )
    is_late = Present("Whether its claim was lost before it was written.", "late")
    packed_records = Decoded(
        raw,
        "How the calls since the page before went, as compressed JSON: "
        "`piecework chunks calls` shows them.",
        "records",
        kind="bytes",
    )

    packed_digests = Decoded(
        raw,
        "A short digest of each argument of these calls, as compressed JSON: by the "
        "names of the arguments and the beginning of the key of the call.",
        "arguments",
        kind="bytes",
    )

    def read_answers(self) -> dict[str, Any]:
        """Return the answers on the page, by the key of the call."""
        found: dict[str, Any] = {}
        for name, group in read_packed(self.item, "answers", self.what).items():
            found |= group if isinstance(group, dict) else {name: group}
        return found

    def read_digests(self) -> dict[str, dict[str, str]]:
        """Return the digests of arguments, by the beginning of the key of the call."""
        from piecework.domain.argument_digests import read_digests  # loads pydantic

        return read_digests(self.item, "arguments")

    def read_sites(self) -> dict[str, str]:
        """Return what each call on the page called, by its key, as `site_text` does."""
        groups = read_packed(self.item, "answers", self.what)
        sites = {
            key: site
            for site, group in groups.items()
            if isinstance(group, dict)
            for key in group
        }
        large = self.large.items()
        return sites | {key: str(e["site"]) for key, e in large if e.get("site")}

    @property
    def count(self) -> int:
        """The number of its answers; 0 if an operator has damaged it."""
        return self.stored_count or 0

    @property
    def fence(self) -> int:
        """The claim that wrote it, from its sort key."""
        return self._claim[1]

    @property
    def gen(self) -> int:
        """The generation of that claim."""
        return self._claim[0]

    @property
    def _claim(self) -> tuple[int, int]:
        part = str(self.item.get("sk", "")).partition(keys.CALLS_ROWS)
        return keys.claim_of_part(part[1] + part[2])[:2] if part[1] else (0, 0)


@dataclass(frozen=True, slots=True)
class EventRow(Row):
    """An event of a job; its other attributes are the fields of the event."""

    WHAT = "An event"

    event = Text("Its name.")
    at = Text("When it happened.")

    @property
    def facts(self) -> dict[str, Any]:
        """Its facts."""
        hidden = HIDDEN | {"at", "event", "job", "expires_at"}
        return {name: v for name, v in self.item.items() if name not in hidden}


#: Between the name of a worker and the id of one of its processes.
PROCESS: Final = "+"


def worker_of(owner: str) -> str:
    """Return the worker whose process owns a chunk; most workers have one process."""
    return owner.partition(PROCESS)[0]


@dataclass(frozen=True, slots=True)
class WorkerRow(Row):
    """The last report of a worker; it is for operators: no claim depends on it."""

    WHAT = "The report of a worker"

    worker = Text(
        "Its name. The chunks that it owns have it, and one of several processes adds "
        "its own number."
    )
    pipelines = Decoded(name_set, "The pipelines that it runs.", kind="set")
    code_versions = Decoded(
        mapping, "The code version of each pipeline, by its name.", kind="map"
    )
    queues = Decoded(
        name_set, "The queues that it receives from, as views name them.", kind="set"
    )
    dependencies = Decoded(name_set, "The dependencies that it has called.", kind="set")
    max_chunks = Number("The chunks that it runs at once.")
    lease_ms = Number("The milliseconds of its leases.")
    in_progress = Number("The chunks that it ran at the report.")
    reported_at = Text("When it reported.")
    due_at = Text(
        "By when it reports again unless it is dead: 20 s later with chunks, a minute "
        "later without."
    )
    has_stopped = Present(
        "Whether it stopped, or takes no more chunks because it stops; the value is "
        "the time.",
        "stopped_at",
    )
    has_lost_chunks = Present(
        "Whether one of its chunks was taken over since the report; the value is the "
        "time of the last. Its next report removes it.",
        "lost_at",
    )
    taken_over = Count("The chunks that were taken over from it since its last report.")
    expires_at = OptionalNumber("When DynamoDB may delete the row: a day later.")

    @property
    def lease_s(self) -> float:
        """The seconds of its leases."""
        return self.lease_ms / 1000

    def is_late(self, now: float) -> bool:
        """Return whether it should have reported again: it may be dead."""
        return not self.has_stopped and now > moment(self.due_at) + LATE_S

    def is_lost(self, now: float) -> bool:
        """Return whether it died, froze or was cut off: its chunks are taken over.

        It is lost once a chunk was taken over, or its leases must have expired.
        """
        if self.has_stopped:
            return False
        expired = now > moment(self.due_at) + LATE_S + self.lease_s
        return expired or self.has_lost_chunks

    def is_live(self, now: float) -> bool:
        """Return whether it takes chunks, as far as its last report shows."""
        return not (self.has_stopped or self.is_late(now) or self.is_lost(now))

    @property
    def is_full(self) -> bool:
        """Whether it had no free slot at the report."""
        return self.in_progress >= self.max_chunks


def read_error(item: Mapping[str, Any]) -> ErrorEnvelope:
    """Return the error that an item has."""
    from piecework.errors import ErrorEnvelope

    return ErrorEnvelope.model_validate_json(item["error"])
