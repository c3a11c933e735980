"""The notification that a pipeline's notify hook receives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from piecework.domain import keys
from piecework.domain.model import Job


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


def read_notification(job: Job, row: Mapping[str, Any]) -> Notification:
    """Return the notification that a row stores."""
    return Notification(
        tenant=job.ref.tenant,
        job=job.ref.job,
        pipeline=job.pipeline,
        event=row["event"],
        status=row["job_status"],
        counts=row["counts"],
        cancelled_by=row.get("cancelled_by", ""),
        reason=row.get("cancel_reason", ""),
        at=row["at"],
        idempotency_key=keys.notification_key(
            job.ref.tenant, job.ref.job, row["gen"], row["event"]
        ),
    )
