"""Read how a job came to its end: what a cancel took, and who was told."""

from __future__ import annotations

from typing import Any

from piecework.model import Job, JobStatus, moment
from piecework.runtime import Runtime
from piecework.store.notices import Notices


def cancel_facts(job: Job) -> dict[str, Any] | None:
    """Return what is known of the job's cancel; None: it is not, or was resumed since.

    Several clocks measure it, which may differ by a little.
    """
    item = job.item
    if job.status not in {JobStatus.CANCELLING, JobStatus.CANCELLED}:
        return None
    said = ("cancelled_by", "cancel_reason", "cancel_code", "cancel_undoes")
    facts = {name: item[name] for name in (*said, "cancelled_at") if name in item}
    if job.status is JobStatus.CANCELLING or "quiet_at" not in item:
        return facts
    asked = moment(str(item["cancelled_at"]))
    return facts | {
        "to_quiet_s": round(moment(item["quiet_at"]) - asked, 3),
        "to_cancelled_s": round(moment(item["finished_at"]) - asked, 3),
        "late_calls": item["late_calls"],
    }


async def notices(rt: Runtime, job: Job) -> list[dict[str, Any]]:
    """Return what the pipeline was told of the job, or is to be."""
    names = ("event", "gen", "at", "notice_state", "tries", "told_at", "said")
    rows = await Notices(rt.table, rt.clock).of(job.ref)
    return [{name: row[name] for name in names if name in row} for row in rows]
