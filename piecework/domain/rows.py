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
from piecework.domain.moments import moment

if TYPE_CHECKING:
    from piecework.errors import ErrorEnvelope

#: Attributes that no document shows: the keys, the schema version and the expiry.
HIDDEN = frozenset({"pk", "sk", "v", "expires_at"})
#: Seconds by which a report of a worker may be late.
LATE_S: Final = 10.0


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

    def _text(self, name: str) -> str:
        return records.read_text(self.item, name, self.WHAT)

    def _int(self, name: str) -> int:
        return records.read_int(self.item, name, self.WHAT)


@dataclass(frozen=True, slots=True)
class StageRow(Row):
    """The value of a completed stage, or a chunk's result."""

    WHAT = "The value of a stage"

    @property
    def has_value(self) -> bool:
        """Whether the stage returned another value than `null`."""
        return "value" in self.item or "value_at" in self.item

    @property
    def stage(self) -> str:
        """The name of the stage."""
        return self._text("stage")

    @property
    def finished_at(self) -> str:
        """When the stage completed, ISO 8601."""
        return self._text("finished_at")


@dataclass(frozen=True, slots=True)
class CompensationRow(Row):
    """The cause of a compensation."""

    WHAT = "The cause of a compensation"

    @property
    def stage(self) -> str:
        """The stage in which it occurred."""
        return self._text("stage")

    @property
    def cause(self) -> ErrorEnvelope:
        """The error that is compensated."""
        return read_error(self.item)

    @property
    def calls_gen(self) -> int | None:
        """The generation in the keys of its calls; None: the row's own."""
        return records.read_optional_int(self.item, "calls_gen")


@dataclass(frozen=True, slots=True)
class CompensatedRow(Row):
    """A stage that was compensated, or whose compensation failed."""

    WHAT = "A compensated stage"

    @property
    def stage(self) -> str:
        """The name of the stage."""
        return self._text("stage")

    @property
    def finished_at(self) -> str:
        """When its compensation ended, ISO 8601."""
        return self._text("finished_at")

    @property
    def gen(self) -> int:
        """The generation in which it was compensated; a row without one: the first."""
        return self._int("gen") if "gen" in self.item else 1

    @property
    def has_failed(self) -> bool:
        """Whether its compensation failed."""
        return "error" in self.item

    @property
    def failure(self) -> ErrorEnvelope | None:
        """The error of the compensation; None: it succeeded."""
        return read_error(self.item) if self.has_failed else None


@dataclass(frozen=True, slots=True)
class EffectRow(Row):
    """An effect in the ledger."""

    WHAT = "An effect"

    @property
    def key(self) -> str:
        """The key of the effect within its chunk."""
        return self._text("effect_key")

    @property
    def stage(self) -> str:
        """The stage that caused it; see `keys.compensation_stage`."""
        return self._text("stage")

    @property
    def state(self) -> str:
        """Its state; `piecework.store.effects` has the states."""
        return self._text("state")

    @property
    def started_at(self) -> str:
        """When its intent was written, ISO 8601."""
        return self._text("started_at")

    @property
    def answer_schema(self) -> str:
        """The JSON schema of its answer; it accepts any if the type is not known."""
        return str(self.item.get("answer_schema", "{}"))

    @property
    def resolved_at(self) -> str:
        """When an operator resolved it; empty: its end is known from a worker."""
        at = str(self.item.get("resolved_at", ""))
        return at if at == self.item.get("ended_at") else ""

    @property
    def was_not_sent(self) -> bool:
        """Whether its last request never left a worker."""
        return self.state == "REFUSED" and bool(self.item.get("not_sent"))

    @property
    def usage(self) -> CallUsage:
        """What its call used, as the claim that was answered has reported."""
        return CallUsage.read(self.item.get("call_usage"))

    @property
    def paid_fence(self) -> int | None:
        """The claim that was answered; None: none was yet."""
        return records.read_optional_int(self.item, "paid_fence")

    @property
    def may_be_uncounted(self) -> bool:
        """Whether its call may have been paid for, and no claim has counted it.

        One that was in doubt at its compensation has no end, either.
        """
        in_doubt = self.state in {"INTENT", "UNKNOWN"}
        undone = self.state == "COMPENSATED" and "ended_at" not in self.item
        return self.paid_fence is None and (in_doubt or undone)


@dataclass(frozen=True, slots=True)
class ErrorRow(Row):
    """The error that ended one claim."""

    WHAT = "An error on record"

    @property
    def attempt(self) -> tuple[Any, Any]:
        """The generation and the number of the attempt; not checked, only compared.

        A deferral ended no attempt: the next claim has the same number.
        """
        number = None if self.item.get("deferred") else self.item.get("attempt")
        return self.item.get("gen"), number

    @property
    def at(self) -> str:
        """When the claim ended, ISO 8601."""
        return self._text("at")

    @property
    def failure(self) -> ErrorEnvelope:
        """The error."""
        return read_error(self.item)

    @property
    def facts(self) -> dict[str, Any]:
        """The error as a document, with its attempt, its time and its worker."""
        error = records.read_document(self._text("error"), self.WHAT)
        facts = {"attempt": self._int("attempt"), "at": self.at}
        return facts | {"worker": self._text("worker")} | error


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

    def read_answers(self) -> dict[str, Any]:
        """Return the answers on the page, by the key of the call."""
        return records.read_packed(self.item, "answers", self.WHAT)

    @property
    def count(self) -> int:
        """The number of its answers; 0 if an operator has damaged it."""
        return records.read_optional_int(self.item, "count") or 0

    @property
    def large(self) -> Mapping[str, Any]:
        """The places of large answers, by the key of the call."""
        found: Mapping[str, Any] = self.item.get("large", {})
        return found

    @property
    def usage(self) -> CallUsage:
        """What the calls of its claim used up to this page."""
        return CallUsage.read(self.item.get("call_usage"))

    @property
    def fence(self) -> int:
        """The claim that wrote it, from its sort key."""
        part = str(self.item.get("sk", "")).partition(keys.CALLS_ROWS)
        return keys.claim_of_part(part[1] + part[2])[1] if part[1] else 0

    @property
    def is_late(self) -> bool:
        """Whether its claim was lost before it was written."""
        return "late" in self.item


@dataclass(frozen=True, slots=True)
class EventRow(Row):
    """An event of a job."""

    WHAT = "An event"

    @property
    def at(self) -> str:
        """When it happened, ISO 8601."""
        return self._text("at")

    @property
    def event(self) -> str:
        """Its name."""
        return self._text("event")

    @property
    def facts(self) -> dict[str, Any]:
        """Its facts."""
        hidden = HIDDEN | {"at", "event", "job", "expires_at"}
        return {name: v for name, v in self.item.items() if name not in hidden}


@dataclass(frozen=True, slots=True)
class WorkerRow(Row):
    """The last report of a worker."""

    WHAT = "The report of a worker"

    @property
    def worker(self) -> str:
        """Its name, as on the chunks that it owns."""
        return self._text("worker")

    @property
    def pipelines(self) -> frozenset[str]:
        """The pipelines that it runs."""
        return frozenset(map(str, self.item.get("pipelines", ())))

    @property
    def queues(self) -> frozenset[str]:
        """The queues that it receives from, as views name them."""
        return frozenset(map(str, self.item.get("queues", ())))

    @property
    def dependencies(self) -> frozenset[str]:
        """The dependencies that it has called."""
        return frozenset(map(str, self.item.get("dependencies", ())))

    @property
    def max_chunks(self) -> int:
        """The chunks that it runs at once."""
        return self._int("max_chunks")

    @property
    def in_progress(self) -> int:
        """The chunks that it ran at the report."""
        return self._int("in_progress")

    @property
    def lease_s(self) -> float:
        """The seconds of its leases."""
        return self._int("lease_ms") / 1000

    @property
    def reported_at(self) -> str:
        """When it reported, ISO 8601."""
        return self._text("reported_at")

    @property
    def due_at(self) -> str:
        """By when it reports again unless it is dead, ISO 8601."""
        return self._text("due_at")

    @property
    def has_stopped(self) -> bool:
        """Whether it stopped, or takes no more chunks because it stops."""
        return "stopped_at" in self.item

    def is_late(self, now: float) -> bool:
        """Return whether it should have reported again: it may be dead."""
        return not self.has_stopped and now > moment(self.due_at) + LATE_S

    @property
    def taken_over(self) -> int:
        """The chunks that were taken over from it since its last report."""
        return self._int("taken_over") if "taken_over" in self.item else 0

    def is_lost(self, now: float) -> bool:
        """Return whether it died, froze or was cut off: its chunks are taken over.

        It is lost once a chunk was taken over, or its leases must have expired.
        """
        if self.has_stopped:
            return False
        expired = now > moment(self.due_at) + LATE_S + self.lease_s
        return expired or "lost_at" in self.item

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
