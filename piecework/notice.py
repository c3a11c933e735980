"""What a pipeline's notify hook is told of a job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from piecework import keys
from piecework.canonical import canonical_json
from piecework.model import Job


@dataclass(frozen=True, slots=True)
class Notification:
    """A job has ended, or its deadline has passed.

    Attributes:
        event: `ended`, or `deadline`: it is being cancelled for that, and will end.
        status: SUCCEEDED, PARTIAL, FAILED, CANCELLED; at a deadline CANCELLING.
        counts: How many chunks ended in which state; nothing at a deadline.
        cancelled_by, reason: Who cancelled it and why; empty if nobody did.
        at: When it happened, ISO 8601, UTC.
        idempotency_key: The same each time that this notice is delivered.
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


#: Is awaited at least once for each notice, by a worker that has the pipeline.
NotifyFunction: TypeAlias = Callable[[Notification], Awaitable[None]]


def read_notification(job: Job, row: Mapping[str, Any]) -> Notification:
    """Return a notice as its row keeps it."""
    scope = [job.ref.tenant, job.ref.job, row["gen"], row["event"]]
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
        idempotency_key=keys.sha256(canonical_json(scope).encode()),
    )
