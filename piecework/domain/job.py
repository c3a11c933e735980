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
from piecework.domain.fields import (
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
    number_set,
    text_list,
)
from piecework.domain.moments import moment
from piecework.domain.pause import Pause
from piecework.domain.priority import Priority
from piecework.domain.refs import JobRef
from piecework.domain.retention import expires_at
from piecework.domain.states import JobStatus
from piecework.domain.tags import read_tags

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


def what_of(ref: JobRef) -> str:
    """Return the record of a job in words, for messages."""
    return f"The record of job {ref.job}"


def counts(found: Any) -> Mapping[str, int] | None:
    """Decode numbers of chunks; None: there are none."""
    known: Mapping[str, int] | None = found
    return known


@dataclass(frozen=True, slots=True)
class Job:
    """A job, read from its META item.

    Attributes:
        status: SUBMITTING, RUNNING, PAUSED, FINALIZING, REOPENING, CANCELLING,
            SUCCEEDED, PARTIAL, FAILED, CANCELLED, DELETING or DELETED.
        gen: The generation; a redrive or a retry starts the next one.
        chunks: The number of chunks.
        pipeline: The name of the pipeline.
    """

    ref: JobRef
    status: JobStatus
    gen: int
    chunks: int
    pipeline: str
    item: Mapping[str, Any]

    # The submit.
    first_stage = Text("The first stage of its pipeline.")
    shape = OptionalText(
        "The shape of its pipeline at the submit, as JSON; empty: it is not known."
    )
    code_changes = Decoded(
        text_list,
        "What differs in the pipeline of workers that went on with it since the "
        "submit: a code version and a sentence each, at most 20.",
        kind="list",
    )
    pinned_to = ShownText(
        "The code version whose workers alone run it; empty: any version does. "
        "`jobs unpin` removes it."
    )
    push_token = ShownText(
        "The push that brought it from a run of another machine; empty: none did."
    )
    manifest = Text("The object that lists all chunks.")
    manifest_sha256 = Text("The hash of its manifest.")
    source = ShownText("The submitted document; empty: it is not known.")
    submitted_by = OptionalText(
        "The operator who submitted it; empty: it is not known."
    )
    traceparent = OptionalText(
        "The trace context of its submit; empty: its program sent no traces."
    )
    queue = OptionalText(
        "The queue of its pipeline at the submit; empty: the default one."
    )
    stored_priority = OptionalText("Its priority; empty: normal.", "priority")
    submitted_priority = OptionalText(
        "The priority of its submit; empty: normal.", "priority_requested"
    )
    budget_tokens = OptionalNumber("The tokens that its calls may use, by its submit.")
    budget_nano_usd = OptionalNumber(
        "The billionths of a dollar that its calls may spend, by its submit."
    )
    lane = ShownText(
        "`direct`: no call of it waits for a cheaper tier; empty: as models declare."
    )
    tags = Decoded(
        read_tags,
        "What its submitter says of it, such as `team: legal`; empty: nothing.",
        kind="map",
    )
    deadline_at = OptionalText(
        "The time at which it is cancelled and compensated unless it has ended; empty: "
        "none."
    )
    deadline_requested = OptionalText(
        "The deadline of its submit, as a span or a time; empty: none."
    )
    tolerated_chunks = Count(
        "How many chunks may have no result in a job that succeeds."
    )
    left_out_rows = Count("How many refused rows of its input its submit left out.")
    left_out = Decoded(
        text_list, "The first 20 of these rows, such as `line 3`.", kind="list"
    )
    is_ordered = Present("Whether its chunks have order keys.", "ordered")
    has_notify_hook = Flag("Whether its pipeline has a notify hook.")
    has_ladder = Flag("Whether its dead letters reach the rungs of a ladder.")
    # The parent, of a job that a stage of another one has started.
    parent_job = ShownText("The job whose stage started it; empty: none did.")
    parent_chunk = OptionalNumber("The chunk of that stage; None: no stage started it.")
    parent_stage = ShownText("The name of that stage; empty: no stage started it.")
    root_job = ShownText(
        "The job at the top, whose budget its calls spend; empty: it is the top."
    )
    lineage = Decoded(
        text_list,
        "The pipelines of the jobs above it, that of the top first; empty: none.",
        kind="list",
    )
    # The sample.
    sample = Decoded(
        number_set,
        "The numbers of the chunks of its sample; empty: it has none.",
        kind="set",
    )
    sample_chunks = OptionalNumber("The number of chunks of its sample.")
    payload_bytes = Count("The bytes of all payloads; known of a job with a sample.")
    largest_payload = Count(
        "The bytes of its largest payload; known of a job with a sample."
    )
    holds_rest = Present(
        "Whether only its sample runs; the end of the sample, or a resume, removes it.",
        "rest_held",
    )
    goes_on_after_sample = Flag(
        "Whether the end of the sample starts the rest, without a pause."
    )
    # The way.
    created_at = OptionalText("When it was created.")
    opened_at = OptionalText("When all chunks were written; empty: they were not.")
    sent_at = OptionalText("When all messages were sent; empty: they were not.")
    noted_progress_at = OptionalText(
        "The last progress of its submit, retry or resume, every 10 s; empty: none "
        "took that long.",
        "progress_at",
    )
    finalizing_at = OptionalText("When all chunks had ended; empty: they have not.")
    finished_at = Text("When it ended last.")
    full_groups = Decoded(
        number_set,
        "The groups of 256 whose chunks have all ended; of a job of 2 to 256 groups.",
        kind="set",
    )
    full_blocks = Decoded(
        number_set,
        "The blocks of 256 groups that are full; of a job of more than 256 groups.",
        kind="set",
    )
    backlog_start = OptionalNumber(
        "The first chunk of its backlog; None: each chunk gets a message at once."
    )
    has_waits = Present(
        "Whether a chunk of it has ever waited longer than SQS delays a message; the "
        "value is the time of the first."
    )
    has_status_reason = Present(
        "Whether a worker or a reconciler knows why it makes no progress; the value is "
        "a sentence.",
        "status_reason",
    )
    status_reason_code = Text("The code of that reason.")
    status_reason_at = Text("When that reason was written.")
    status_reason_until = OptionalText(
        "Until when that reason is valid; empty: always."
    )
    failed_chunks = Count(
        "How many chunks had become dead letters when no further chunk started."
    )
    stopped_at = OptionalText("Since when no further chunk starts.")
    stopped_code = OptionalText("Why no further chunk starts; empty: chunks start.")
    # The pause; a resume removes it.
    pause_code = Text(
        "Of a paused job: why; `operator`, `sample`, `pipeline`, `budget` or `parent`."
    )
    pause_message = Text("Of a paused job: the reason in words.")
    paused_by = Text("Of a paused job: the operator, or the process, that paused it.")
    paused_at = Text("Of a paused job: since when.")
    pause_until = OptionalText("When a reconciler resumes it; empty: an operator does.")
    pause_unit = OptionalText("The unit of its spent budget; empty: another pause.")
    resumed_at = OptionalText("When its last pause ended; empty: it was never resumed.")
    redispatched_at = OptionalText(
        "When every open chunk had its message again after the last resume."
    )
    # The cancel.
    cancelled_at = Text("When its last cancel was requested.")
    cancelled_by = OptionalText(
        "The operator who cancelled it; `deadline`: its deadline; else empty."
    )
    cancel_reason = OptionalText("The reason of its cancel; else empty.")
    stored_cancel_code = OptionalText(
        "The code of its cancel; empty: `cancelled`.", "cancel_code"
    )
    compensates_on_cancel = Flag(
        "Whether its cancel compensates the chunks.", "cancel_compensates"
    )
    quiesced_at = OptionalText(
        "When the last chunk ended after the cancel; empty: it was not cancelled."
    )
    calls_after_cancel = Number("The calls that ended after the cancel request.")
    compensations = Decoded(
        mapping,
        "Of a cancelled job: the number of chunks by the result of their compensation.",
        kind="map",
    )
    # The end.
    certificate = OptionalText(
        "The object of its last certificate; empty: it has never ended."
    )
    certificate_sha256 = Text("The hash of its last certificate.")
    outcomes = Decoded(
        counts,
        "The number of chunks by final status; None: it has never ended.",
        kind="map",
    )
    unstable_call = Decoded(
        mapping,
        "The first call of its ended chunks whose stored answers a claim did not find "
        "again, as on the chunk.",
        kind="map",
    )
    effects_in_doubt = Count(
        "The effects in doubt of its ended chunks, since its last end; without those "
        "that an operator has resolved."
    )
    changes_accepted_at = OptionalText(
        "Until when what earlier claims did stops no newer code; empty: an operator "
        "has accepted no change."
    )
    changes_accepted_by = ShownText("The operator who accepted it; empty: none did.")
    changes_accepted_why = ShownText("Why; empty: none did.")
    changes_accepted_for = ShownText(
        "The code version that goes on; empty: each one, or none."
    )
    join_usage = Decoded(
        CallUsage.read,
        "What the calls of its earlier joins used; each generation has a new join.",
        kind="map",
    )
    reopened_at = OptionalText("When it was reopened last; empty: never.")
    reopened_by = ShownText("The operator who reopened it last; empty: none did.")
    reopen_reason = ShownText("Why; empty: it was never reopened.")
    delete_after = OptionalText("When a reconciler deletes it; empty: it stays.")
    rows_until = OptionalText(
        "Until when the rows of its chunks live, if no renewal is under way; empty: "
        "they stay until they are deleted."
    )
    renew_at = OptionalText(
        "When a reconciler renews its rows, or goes on with it; empty: never."
    )
    renewed_partitions = ShownNumber(
        "Of a renewal under way: how many partitions it has swept, in two sweeps of "
        "each; None: no renewal is under way."
    )
    is_kept = Present(
        "Whether its open dead letters kept it past its retention; the value is the "
        "time since when.",
        "kept_at",
    )
    deleted_by = Text("Of a deleted job: the operator who deleted it, or `retention`.")
    delete_reason = Text("Of a deleted job: why.")
    delete_requested_at = Text("Of a deleted job: when its deletion began.")
    deleted_at = Text("Of a deleted job: when its last row was gone.")

    @classmethod
    def read(cls, ref: JobRef, item: Mapping[str, Any]) -> Job:
        """Read an item.

        Raises:
            PermanentError: `runtime.record.unreadable`.
        """
        what = what_of(ref)
        return cls(
            ref,
            records.read_status(item, JobStatus, what),
            records.read_int(item, "gen", what, 1, keys.MAX_GENERATION),
            records.read_int(item, "chunks", what, 0, keys.MAX_CHUNK_NUMBER + 1),
            records.read_text(item, "pipeline", what),
            item,
        )

    @property
    def what(self) -> str:
        """Its record in words, for messages."""
        return what_of(self.ref)

    @property
    def priority(self) -> Priority:
        """Its priority; an unknown one counts as normal."""
        found = self.stored_priority
        return Priority(found) if found in set(Priority) else Priority.NORMAL

    @property
    def priority_requested(self) -> str:
        """The priority of its submit, which `jobs set-priority` does not change."""
        return self.submitted_priority or str(Priority.NORMAL)

    @property
    def budget(self) -> Cap:
        """The budget of its submit; an operator may have set another one since."""
        return Cap(self.budget_tokens, self.budget_nano_usd)

    @property
    def parent(self) -> JobRef | None:
        """The job whose stage started it; None: no stage did."""
        return JobRef(self.ref.tenant, self.parent_job) if self.parent_job else None

    @property
    def payer(self) -> JobRef:
        """The job whose budget its calls spend: the one at the top, or itself."""
        return JobRef(self.ref.tenant, self.root_job or self.ref.job)

    @property
    def deadline(self) -> float | None:
        """Its deadline in seconds since 1970; None: it has none."""
        return moment(self.deadline_at) if self.deadline_at else None

    @property
    def is_expiring(self) -> bool:
        """Whether its deadline cancels it now."""
        cancelling = self.status is JobStatus.CANCELLING
        return cancelling and self.cancel_code == DEADLINE_CODE

    @property
    def dispatched_at(self) -> str:
        """When its chunks were dispatched last; empty: they were not."""
        return self.reopened_at or self.sent_at or self.opened_at

    @property
    def progress_at(self) -> str:
        """When a process last submitted, retried, resumed or finished it, ISO 8601."""
        item = self.item
        return max(
            records.read_text(item, n, self.what) if n in item else "" for n in PROGRESS
        )

    @property
    def status_reason(self) -> dict[str, str] | None:
        """Why it makes no progress: code, message, time and end; None: no reason."""
        if not self.has_status_reason:
            return None
        return {
            "code": self.status_reason_code,
            "message": records.read_text(self.item, "status_reason", self.what),
            "at": self.status_reason_at,
            "until": self.status_reason_until,
        }

    @property
    def pause(self) -> Pause | None:
        """Its pause; None: it is not paused."""
        if self.status != "PAUSED":
            return None
        return Pause(
            self.pause_code,
            self.pause_message,
            self.paused_by,
            self.paused_at,
            self.pause_until,
            self.pause_unit,
        )

    @property
    def resume_is_unsent(self) -> bool:
        """Whether open chunks may have no message since the last resume."""
        return self.resumed_at > self.redispatched_at

    @property
    def ended_at_least(self) -> int:
        """The minimum number of ended chunks, from the groups that are full."""
        full = len(self.full_groups) + len(self.full_blocks) * keys.BLOCK_SIZE
        return min(full * keys.PARTITION_SIZE, self.chunks)

    @property
    def cancel_code(self) -> str:
        """The code of its cancel; `cancelled` without one."""
        return self.stored_cancel_code or "cancelled"

    def waits_for_sample(self, chunk: int) -> bool:
        """Return whether a chunk waits for the end of the sample."""
        return self.holds_rest and chunk not in self.sample

    @property
    def expires_at(self) -> int | None:
        """When DynamoDB may delete a row of a chunk, in seconds since 1970."""
        return expires_at(self.rows_until)

    @property
    def listed_at(self) -> str:
        """When a reconciler looks at it after its end; empty: never."""
        return min([at for at in (self.delete_after, self.renew_at) if at], default="")

    @property
    def deletion(self) -> dict[str, str]:
        """By which operator, why and when it was deleted; empty: it was not."""
        names = ("deleted_by", "delete_reason", "delete_requested_at", "deleted_at")
        return {n: getattr(self, n) for n in names if n in self.item}

    def pick(self, names: Collection[str]) -> dict[str, Any]:
        """Return those of the attributes that it has."""
        return {name: self.item[name] for name in names if name in self.item}
