"""Read the end of a job: how long its cancel took, and its notifications."""

from __future__ import annotations

from typing import Any

from piecework.model import Job, JobStatus, moment
from piecework.runtime import Runtime
from piecework.store.notices import Notifications


def cancel_facts(job: Job) -> dict[str, Any] | None:
    """Return the facts of the job's cancel; None: it is not cancelled now.

    Durations are in seconds. They span the clocks of several machines, which may differ
    a little.
    """
    item = job.item
    if job.status not in {JobStatus.CANCELLING, JobStatus.CANCELLED}:
        return None
    names = ("cancelled_by", "cancel_reason", "cancel_code", "cancel_compensates")
    facts = {name: item[name] for name in (*names, "cancelled_at") if name in item}
    if job.status is JobStatus.CANCELLING or "quiesced_at" not in item:
        return facts
    requested = moment(str(item["cancelled_at"]))
    return facts | {
        "quiesced_after_s": round(moment(item["quiesced_at"]) - requested, 3),
        "cancelled_after_s": round(moment(item["finished_at"]) - requested, 3),
        "calls_after_cancel": item["calls_after_cancel"],
    }


async def read_notifications(rt: Runtime, job: Job) -> list[dict[str, Any]]:
    """Return the notifications of the job: those delivered, and those outstanding."""
    names = ("event", "gen", "at", "state", "attempts", "delivered_at", "last_error")
    rows = await Notifications(rt.table, rt.clock).of(job.ref)
    return [{name: row[name] for name in names if name in row} for row in rows]
