"""The notification that a pipeline's notify hook receives, and its row."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from piecework.domain import keys
from piecework.domain.fields import (
    AnyText,
    Decoded,
    Number,
    OptionalText,
    ShownText,
    Text,
    mapping,
)
from piecework.domain.job import Job
from piecework.domain.rows import Row


@dataclass(frozen=True, slots=True)
class Notification:
    """A job has ended, or its deadline has passed.

    Attributes:
        event: `ended`, or `deadline`: the job is being cancelled and will end.
        status: SUCCEEDED, PARTIAL, FAILED, CANCELLED; at a deadline CANCELLING.
        counts: The number of chunks by final state; empty at a deadline.
        cancelled_by, reason: The operator who cancelled it, and the reason; else empty.
        at: When it happened, ISO 8601, UTC.
        idempotency_key: The same for each delivery of this notification.
    """

    tenant: str
    job: str
    pipeline: str
    event: Literal["ended", "deadline"]
    status: str
    counts: Mapping[str, int] = field(default_factory=dict)
    cancelled_by: str = ""
    reason: str = ""
    at: str = ""
    idempotency_key: str = ""


#: A worker that has the pipeline awaits it at least once for each notification.
NotifyFunction: TypeAlias = Callable[[Notification], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class NotificationRow(Row):
    """A notification of a job's notify hook; `store.notifications` has the states."""

    WHAT = "A notification"

    stored_event = Text("What it reports: `ended` or `deadline`.", "event")
    gen = Number("The generation of the job.")
    at = Text("When it was written.")
    job_status = Text("The status of the job when it was written.")
    counts = Decoded(
        mapping, "The number of chunks by final state; empty at a deadline.", kind="map"
    )
    cancelled_by = AnyText("The operator who cancelled the job; else empty.")
    cancel_reason = AnyText("The reason of the cancel; else empty.")
    state = Text("`PENDING`, `DELIVERED` or `ABANDONED`.")
    due_at = Text("When it is due, or until when a worker delivers it.")
    attempts = Number("How often its delivery was attempted.")
    redispatch_at = OptionalText("When a reconciler sends another message for it.")
    delivered_at = OptionalText("When the hook returned; empty: it has not.")
    last_error = ShownText("The last error of the hook; empty: none.")

    @property
    def key(self) -> tuple[str, str]:
        """Its partition and sort key."""
        return self.item["pk"], self.item["sk"]

    @property
    def event(self) -> Literal["ended", "deadline"]:
        """What it reports."""
        return "deadline" if self.stored_event == "deadline" else "ended"


def read_notification(job: Job, row: NotificationRow) -> Notification:
    """Return the notification that a row stores."""
    return Notification(
        tenant=job.ref.tenant,
        job=job.ref.job,
        pipeline=job.pipeline,
        event=row.event,
        status=row.job_status,
        counts=row.counts,
        cancelled_by=row.cancelled_by,
        reason=row.cancel_reason,
        at=row.at,
        idempotency_key=keys.notification_key(
            job.ref.tenant, job.ref.job, row.gen, row.event
        ),
    )
