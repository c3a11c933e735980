"""The notification that a pipeline's notify hook receives, and its row."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from piecework.domain import keys
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

    @property
    def key(self) -> tuple[str, str]:
        """Its partition and sort key."""
        return self.item["pk"], self.item["sk"]

    @property
    def event(self) -> Literal["ended", "deadline"]:
        """What it reports."""
        return "deadline" if self._text("event") == "deadline" else "ended"

    @property
    def gen(self) -> int:
        """The generation of the job."""
        return self._int("gen")

    @property
    def state(self) -> str:
        """Whether it is pending, delivered or abandoned."""
        return self._text("state")

    @property
    def due_at(self) -> str:
        """When it is due, or until when it is being delivered, ISO 8601."""
        return self._text("due_at")

    @property
    def attempts(self) -> int:
        """How often its delivery was attempted."""
        return self._int("attempts")

    @property
    def job_status(self) -> str:
        """The status of the job when it was written."""
        return self._text("job_status")

    @property
    def at(self) -> str:
        """When it was written, ISO 8601."""
        return self._text("at")

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of chunks by final state; empty at a deadline."""
        found: Mapping[str, int] = self.item.get("counts", {})
        return found

    @property
    def cancelled_by(self) -> str:
        """The operator who cancelled the job; else empty."""
        return str(self.item.get("cancelled_by", ""))

    @property
    def cancel_reason(self) -> str:
        """The reason of the cancel; else empty."""
        return str(self.item.get("cancel_reason", ""))


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
