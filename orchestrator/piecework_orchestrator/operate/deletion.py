"""Delete a job for an operator; its tombstone answers for it afterwards."""

from __future__ import annotations

from piecework.domain.job import Job
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.states import JobStatus
from piecework.errors import NotFoundError, UsageError
from piecework.jobs.children import open_children
from piecework.jobs.deletion import delete_job, sweep_again
from piecework.jobs.fan_out import Progress
from piecework.runtime import Runtime
from piecework.store.deletions import Deletions
from piecework_orchestrator.operate.effects import effects_of_letters
from piecework_orchestrator.reading.selection import Filter, select
from piecework_orchestrator.reading.times import count


async def delete(
    rt: Runtime,
    ref: JobRef,
    *,
    actor: str,
    reason: str,
    progress: Progress = lambda *_: None,
) -> Job:
    """Delete a job that has ended, and return its tombstone.

    If this call is interrupted, a second one continues, and so does a reconciler. The
    first one decides actor and reason. `progress` gets the rows and objects that are
    deleted so far.

    Raises:
        NotFoundError: `job.record.not_found`.
        UsageError: `job.state.not_deletable`: the job, a child or its parent has not
            ended; `cli.reason.missing`.
    """
    require_reason(ref.job, reason)
    deletions = Deletions(rt.table, rt.clock)
    while (job := await rt.jobs.read(ref)) is not None:
        if job.status is JobStatus.DELETED:
            await sweep_again(rt, job, at_once=True)
            return job
        if job.status is JobStatus.DELETING:
            await delete_job(rt, job, progress)
        elif job.status.ended:
            await require_family_ended(rt, job)
            await deletions.begin(job, actor, reason)
        else:
            message = f"Job {ref.job} is {job.status}: it cannot be deleted."
            raise UsageError(message, code="job.state.not_deletable")
    message = f"Job {ref.job} does not exist."
    raise NotFoundError(message, code="job.record.not_found")


async def require_family_ended(rt: Runtime, job: Job) -> None:
    """Require that no child of a job runs, and that its parent does not need it.

    Raises:
        UsageError: `job.state.not_deletable`.
    """
    family = await open_children(rt, job.ref)
    parent = None if job.parent is None else await rt.jobs.read(job.parent)
    if parent is not None and parent.status.is_open:
        family.append(parent)
    if family:
        other = family[0]
        what = "parent" if other.ref == job.parent else "child"
        message = (
            f"Job {job.ref.job} cannot be deleted: its {what} {other.ref.job} is "
            f"{other.status}."
        )
        raise UsageError(message, code="job.state.not_deletable")


async def lost_letters(rt: Runtime, job: str) -> str:
    """Count the open dead letters that a deletion removes, in words; empty: none.

    It also counts the effects in doubt of the first of them.
    """
    damaged: list[ChunkRef] = []
    letters = await select(rt, Filter(job), damaged)
    number = len(letters) + len(damaged)
    lost = count(number, "open dead letter") if number else ""
    if doubtful := await effects_of_letters(rt, letters):
        lost += f" and {count(len(doubtful), 'effect')} in doubt"
    return lost


def require_reason(job: str, reason: str) -> None:
    """Refuse to delete a job without a reason, which its tombstone keeps.

    Raises:
        UsageError: `cli.reason.missing`.
    """
    if not reason.strip():
        message = f"The tombstone of job {job} needs a reason."
        step = "Add --reason 'why it goes', and --yes without a terminal."
        raise UsageError(message, code="cli.reason.missing", next_step=step)
