"""A job, as it is read from its row.

`Job.read` checks what every reader needs. A property checks its attribute when it is
read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from piecework.domain import keys, records
from piecework.domain.budget import Cap
from piecework.domain.call_usage import CallUsage
from piecework.domain.moments import moment
from piecework.domain.pause import Pause
from piecework.domain.priority import Priority
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus

#: The `cancel_code` of a job that its deadline cancelled.
DEADLINE_CODE = "job.deadline.passed"
#: Seconds without progress after which a submit counts as stopped half-way.
SUBMIT_TIMEOUT_S = 30.0
#: The times at which a process worked on a job as a whole.
PROGRESS = (
    "created_at",
    "opened_at",
    "sent_at",
    "finalizing_at",
    "reopened_at",
    "resumed_at",
    "cancelled_at",
    "delete_requested_at",
    "progress_at",
)


@dataclass(frozen=True, slots=True)
class Job:
    """A job, read from its META item."""

    ref: JobRef
    status: JobStatus
    gen: int
    chunks: int
    pipeline: str
    item: Mapping[str, Any]

    @classmethod
    def read(cls, ref: JobRef, item: Mapping[str, Any]) -> Job:
        """Read an item.

        Raises:
            PermanentError: `runtime.record.unreadable`.
        """
        what = f"The record of job {ref.job}"
        return cls(
            ref,
            records.read_status(item, JobStatus, what),
            records.read_int(item, "gen", what, 1, keys.MAX_GENERATION),
            records.read_int(item, "chunks", what, 0, keys.MAX_CHUNK_NUMBER + 1),
            records.read_text(item, "pipeline", what),
            item,
        )

    @property
    def is_expiring(self) -> bool:
        """Whether its deadline cancels it now."""
        cancelling = self.status is JobStatus.CANCELLING
        return cancelling and self.cancel_code == DEADLINE_CODE

    @property
    def deadline(self) -> float | None:
        """Its deadline in seconds since 1970; None: it has none."""
        return moment(self.deadline_at) if self.deadline_at else None

    @property
    def first_stage(self) -> str:
        """The first stage of its pipeline."""
        return self._text("first_stage")

    @property
    def manifest(self) -> str:
        """The object of its manifest."""
        return self._text("manifest")

    @property
    def manifest_sha256(self) -> str:
        """The hash of its manifest."""
        return self._text("manifest_sha256")

    @property
    def certificate(self) -> str:
        """The object of its last certificate; empty: it has never ended."""
        return self._optional("certificate")

    @property
    def certificate_sha256(self) -> str:
        """The hash of its last certificate."""
        return self._text("certificate_sha256")

    @property
    def outcomes(self) -> Mapping[str, int] | None:
        """The number of chunks by final status; None: it has never ended."""
        return self.item.get("outcomes")

    @property
    def join_usage(self) -> CallUsage:
        """What the calls of its earlier joins used; each generation has a new join."""
        return CallUsage.read(self.item.get("join_usage"))

    @property
    def submitted_by(self) -> str:
        """The operator who submitted it; empty: it is not known."""
        return self._optional("submitted_by")

    @property
    def created_at(self) -> str:
        """When it was created, ISO 8601."""
        return self._optional("created_at")

    @property
    def finalizing_at(self) -> str:
        """When all chunks had ended; empty: they have not."""
        return self._optional("finalizing_at")

    @property
    def sent_at(self) -> str:
        """When all messages were sent; empty: they were not."""
        return self._optional("sent_at")

    @property
    def opened_at(self) -> str:
        """When all chunks were written; empty: they were not."""
        return self._optional("opened_at")

    @property
    def reopened_at(self) -> str:
        """When it was reopened last; empty: never."""
        return self._optional("reopened_at")

    @property
    def finished_at(self) -> str:
        """When it ended last, ISO 8601."""
        return self._text("finished_at")

    @property
    def dispatched_at(self) -> str:
        """When its chunks were dispatched last; empty: they were not."""
        return self.reopened_at or self.sent_at or self.opened_at

    @property
    def progress_at(self) -> str:
        """When a process last submitted, retried, resumed or finished it, ISO 8601."""
        return max(map(self._optional, PROGRESS))

    @property
    def status_reason(self) -> dict[str, str] | None:
        """Why it makes no progress: code, message, time and end; None: no reason."""
        if "status_reason" not in self.item:
            return None
        return {
            "code": self._text("status_reason_code"),
            "message": self._text("status_reason"),
            "at": self._text("status_reason_at"),
            "until": self._optional("status_reason_until"),
        }

    @property
    def pause(self) -> Pause | None:
        """Its pause; None: it is not paused."""
        if self.status != "PAUSED":
            return None
        names = ("pause_code", "pause_message", "paused_by", "paused_at")
        code, message, actor, at = map(self._text, names)
        until, unit = map(self._optional, ("pause_until", "pause_unit"))
        return Pause(code, message, actor, at, until, unit)

    @property
    def resume_is_unsent(self) -> bool:
        """Whether open chunks may have no message since the last resume."""
        return self.resumed_at > self._optional("redispatched_at")

    @property
    def resumed_at(self) -> str:
        """When its last pause ended; empty: it was never resumed."""
        return self._optional("resumed_at")

    @property
    def full_groups(self) -> frozenset[int]:
        """The groups whose chunks have all ended; of a job of one block."""
        return frozenset(self.item.get("full_groups", ()))

    @property
    def full_blocks(self) -> frozenset[int]:
        """The blocks whose groups are all full; of a job of several blocks."""
        return frozenset(self.item.get("full_blocks", ()))

    @property
    def ended_at_least(self) -> int:
        """The minimum number of ended chunks, from the groups that are full."""
        full = len(self.full_groups) + len(self.full_blocks) * keys.BLOCK_SIZE
        return min(full * keys.PARTITION_SIZE, self.chunks)

    @property
    def compensates_on_cancel(self) -> bool:
        """Whether its cancel compensates the chunks."""
        return bool(self.item.get("cancel_compensates"))

    @property
    def cancelled_at(self) -> str:
        """When its last cancel was requested, ISO 8601."""
        return self._text("cancelled_at")

    @property
    def cancelled_by(self) -> str:
        """The operator who cancelled it; `deadline`: its deadline; else empty."""
        return self._optional("cancelled_by")

    @property
    def cancel_reason(self) -> str:
        """The reason of its cancel; else empty."""
        return self._optional("cancel_reason")

    @property
    def cancel_code(self) -> str:
        """The code of its cancel; `cancelled` without one."""
        return self._optional("cancel_code") or "cancelled"

    @property
    def quiesced_at(self) -> str:
        """When the last chunk ended after the cancel; empty: it was not cancelled."""
        return self._optional("quiesced_at")

    @property
    def calls_after_cancel(self) -> int:
        """The calls that ended after the cancel request."""
        return self._int("calls_after_cancel")

    @property
    def has_notify_hook(self) -> bool:
        """Whether its pipeline has a notify hook."""
        return bool(self.item.get("has_notify_hook"))

    @property
    def has_ladder(self) -> bool:
        """Whether its dead letters reach the rungs of a ladder."""
        return bool(self.item.get("has_ladder"))

    @property
    def tolerated_chunks(self) -> int:
        """How many chunks may have no result in a job that succeeds."""
        return self._count("tolerated_chunks")

    @property
    def left_out_rows(self) -> int:
        """How many refused rows of its input its submit left out."""
        return self._count("left_out_rows")

    @property
    def left_out(self) -> list[str]:
        """The first of these rows, such as `line 3`."""
        return [str(place) for place in self.item.get("left_out", ())]

    @property
    def failed_chunks(self) -> int:
        """How many chunks became dead letters in this generation, if it tolerates."""
        return self._count("failed_chunks")

    @property
    def stopped_code(self) -> str:
        """Why no further chunk starts; empty: chunks start."""
        return self._optional("stopped_code")

    @property
    def deadline_at(self) -> str:
        """The time at which it is cancelled unless it has ended; empty: none."""
        return self._optional("deadline_at")

    @property
    def deadline_requested(self) -> str:
        """The deadline of its submit, as a span or a time; empty: none."""
        return self._optional("deadline_requested")

    @property
    def budget(self) -> Cap:
        """The budget of its submit; an operator may have set another one since."""
        names = ("budget_tokens", "budget_nano_usd")
        return Cap(*(self._int(n) if n in self.item else None for n in names))

    @property
    def queue(self) -> str:
        """The queue of its pipeline; empty: the default one."""
        return self._optional("queue")

    @property
    def traceparent(self) -> str:
        """The trace context of its submit; empty: its program sent no traces."""
        return self._optional("traceparent")

    @property
    def priority(self) -> Priority:
        """Its priority; an unknown one counts as normal."""
        found = self._optional("priority")
        return Priority(found) if found in set(Priority) else Priority.NORMAL

    @property
    def priority_requested(self) -> str:
        """The priority of its submit, which `jobs set-priority` does not change."""
        return self._optional("priority_requested") or str(Priority.NORMAL)

    @property
    def sample(self) -> frozenset[int]:
        """The numbers of the chunks of its sample; empty: it has none."""
        return frozenset(map(int, self.item.get("sample", ())))

    @property
    def holds_rest(self) -> bool:
        """Whether only its sample runs; the rest waits for the sample's end."""
        return "rest_held" in self.item

    @property
    def goes_on_after_sample(self) -> bool:
        """Whether the end of the sample starts the rest, without a pause."""
        return bool(self.item.get("goes_on_after_sample"))

    @property
    def payload_bytes(self) -> int:
        """The bytes of all payloads; known of a job with a sample."""
        return self._count("payload_bytes")

    @property
    def largest_payload(self) -> int:
        """The bytes of its largest payload; known of a job with a sample."""
        return self._count("largest_payload")

    def waits_for_sample(self, chunk: int) -> bool:
        """Return whether a chunk waits for the end of the sample."""
        return self.holds_rest and chunk not in self.sample

    @property
    def is_ordered(self) -> bool:
        """Whether its chunks have order keys."""
        return "ordered" in self.item

    @property
    def has_waits(self) -> bool:
        """Whether a chunk of it has ever waited longer than SQS delays a message."""
        return "has_waits" in self.item

    @property
    def backlog_start(self) -> int | None:
        """The first chunk of its backlog; None: each chunk gets a message at once."""
        if "backlog_start" not in self.item:
            return None
        what = f"The record of job {self.ref.job}"
        return records.read_int(self.item, "backlog_start", what)

    @property
    def delete_after(self) -> str:
        """When a reconciler deletes it, ISO 8601; empty: it stays."""
        return self._optional("delete_after")

    @property
    def is_kept(self) -> bool:
        """Whether its open dead letters kept it past its retention."""
        return "kept_at" in self.item

    @property
    def deletion(self) -> dict[str, str]:
        """By which operator, why and when it was deleted; empty: it was not."""
        names = ("deleted_by", "delete_reason", "delete_requested_at", "deleted_at")
        return {name: self._text(name) for name in names if name in self.item}

    def pick(self, names: Collection[str]) -> dict[str, Any]:
        """Return those of the attributes that it has."""
        return {name: self.item[name] for name in names if name in self.item}

    def _count(self, name: str) -> int:
        return self._int(name) if name in self.item else 0

    def _int(self, name: str) -> int:
        return records.read_int(self.item, name, f"The record of job {self.ref.job}")

    def _text(self, name: str) -> str:
        return records.read_text(self.item, name, f"The record of job {self.ref.job}")

    def _optional(self, name: str) -> str:
        return self._text(name) if name in self.item else ""
