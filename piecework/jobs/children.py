"""A child and its parent: what passes from one to the other, from their records.

    parent -> child   a reconciler, or the command that changed the parent, reads the
                      parent and lets the child follow: cancel, pause, resume
    child -> parent   the end of the child left an entry; who finds it wakes the chunk

Each is a conditional write of the one that changes, so any process may do it, twice.
"""

from __future__ import annotations

from piecework.aws.queue import Message
from piecework.domain.child import PARENT_CANCELLED_CODE
from piecework.domain.job import Job
from piecework.domain.pause import Pause, PauseCode
from piecework.domain.refs import JobRef
from piecework.domain.states import CANCELLABLE, JobStatus
from piecework.jobs.cancellation import sweep
from piecework.jobs.pausing import resume_job
from piecework.runtime import Runtime
from piecework.store.children import children_of, wake

#: The actor of what a child does because its parent has done it.
ACTOR = "parent"


# ── from the child to its parent ──────────────────────────────────────────────


async def tell_parent(rt: Runtime, ref: JobRef) -> None:
    """Wake the chunk that waits for a child, if the child has ended.

    Its end has left an entry: without this call a reconciler finds it.
    """
    child = await rt.jobs.read(ref)
    if child is None or child.parent is None or child.parent_chunk is None:
        return
    parent = await rt.jobs.read(child.parent) if child.status.ended else None
    if parent is not None and parent.status.is_open:
        chunk, at = child.parent_chunk, child.finished_at
        await wake_for_child(rt, parent, chunk, ref.job, at)


async def wake_for_child(
    rt: Runtime, job: Job, number: int, child: str, entered_at: str
) -> bool:
    """Make a chunk due whose child has ended, and send its message.

    False: the chunk does not wait for this child. A paused job sends the message again
    when it is resumed.
    """
    ref = job.ref.chunk(number)
    if not await wake(rt.table, ref, job.gen, child, entered_at, rt.clock()):
        return False
    await rt.work.send([Message.about(ref, job.gen)], to=job.queue)
    return True


# ── from the parent to its children ───────────────────────────────────────────


async def follow_parent(rt: Runtime, job: Job) -> str:
    """Cancel, pause or resume a child as its parent is; return what was done.

    A child that was reopened after its parent's cancel is not cancelled by it again.
    """
    if job.parent is None or not job.status.is_open:
        return ""
    parent = await rt.jobs.read(job.parent)
    if must_cancel(job, parent):
        return await cancel_with_parent(rt, job, parent)
    if parent is None:
        return ""
    pause = parent.pause
    if pause is not None and job.status is JobStatus.RUNNING:
        why = f"its parent {parent.ref.job} is paused: {pause.why}"
        done = await rt.transitions.pause(job, Pause(PauseCode.PARENT, why, ACTOR))
        return "paused with its parent" if done else ""
    if pause is None and is_paused_by_parent(job) and parent.status.is_open:
        done = await resume_job(rt, job, ACTOR, "its parent was resumed")
        return "resumed with its parent" if done else ""
    return ""


def must_cancel(job: Job, parent: Job | None) -> bool:
    """Return whether the cancel of a parent, or its deletion, cancels a child."""
    if job.status not in CANCELLABLE:
        return False
    if parent is None or parent.status.gone:
        return True
    if parent.status not in {JobStatus.CANCELLING, JobStatus.CANCELLED}:
        return False
    return job.reopened_at <= parent.cancelled_at


def is_paused_by_parent(job: Job) -> bool:
    """Return whether a job is paused because its parent is."""
    return job.pause is not None and job.pause.code == PauseCode.PARENT


async def cancel_with_parent(rt: Runtime, job: Job, parent: Job | None) -> str:
    """Cancel a child as its parent was cancelled, and sweep its chunks."""
    compensates = parent is not None and not parent.status.gone
    facts = {
        "cancelled_by": ACTOR,
        "cancel_reason": f"its parent {job.parent_job} was cancelled",
        "cancel_code": PARENT_CANCELLED_CODE,
        "cancel_compensates": compensates
        and parent is not None
        and parent.compensates_on_cancel,
    }
    if not await rt.transitions.cancel(job, facts):
        return ""
    told = {"actor": ACTOR, "reason": facts["cancel_reason"]}
    await rt.jobs.record(job.ref, "cancelled", told)
    cancelling = await rt.jobs.read(job.ref)
    if cancelling is not None and cancelling.status is JobStatus.CANCELLING:
        await sweep(rt, cancelling)
    await follow_children(rt, job.ref)
    return "cancelled with its parent"


async def follow_children(rt: Runtime, parent: JobRef) -> None:
    """Let the children of a job follow it at once, and theirs.

    A caller that dies leaves the others to the reconcilers.
    """
    async for row in children_of(rt.table, parent):
        child = await rt.jobs.read(row.ref(parent))
        if child is not None and await follow_parent(rt, child):
            await follow_children(rt, child.ref)


async def open_children(rt: Runtime, parent: JobRef) -> list[Job]:
    """Return the children of a job that have not ended."""
    rows = [row async for row in children_of(rt.table, parent)]
    found = [await rt.jobs.read(row.ref(parent)) for row in rows]
    return [job for job in found if job is not None and job.status.is_open]
