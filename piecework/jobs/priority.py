"""Change the priority of a job, and of the jobs below it."""

from __future__ import annotations

from piecework.domain.job import Job
from piecework.domain.priority import Priority
from piecework.jobs.children import open_children
from piecework.runtime import Runtime


async def set_priority(rt: Runtime, job: Job, priority: Priority) -> bool:
    """Change the priority of a job and of its open children, and theirs.

    False: neither the job nor a job below it has a backlog that it would change.
    A caller that dies leaves the rest: the same command again changes it.
    """
    changed = await rt.backlogs.set_priority(job, priority)
    children = await open_children(rt, job.ref)
    if children and not changed:
        changed = await rt.backlogs.set_next_priority(job, priority)
    for child in children:
        changed |= await set_priority(rt, child, priority)
    return changed
