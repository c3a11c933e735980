"""What decides which chunks a worker takes, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from piecework.domain.job import Job
from piecework.pipelines import Pipeline
from piecework_worker.cancelled_jobs import CancelledGroups
from piecework_worker.job_cache import JobCache
from piecework_worker.job_notes import JobNotes
from piecework_worker.next_chunks import NextChunks
from piecework_worker.tenant_caps import TenantCaps


@dataclass(slots=True)
class Intake:
    """The pipelines and queues of one worker, and what it knows of its jobs.

    Attributes:
        queues: The queues that the worker receives from, as pipelines name them.
        next_chunks: The next chunks of order keys, which this worker starts itself.
        code_versions: The code version of each pipeline, by its name.
    """

    pipelines: Mapping[str, Pipeline]
    queues: Sequence[str]
    jobs: JobCache
    notes: JobNotes
    caps: TenantCaps
    next_chunks: NextChunks
    code_versions: Mapping[str, str] = field(default_factory=dict)
    cancelled_groups: CancelledGroups = field(default_factory=CancelledGroups)

    def pipeline_of(self, job: Job) -> Pipeline | None:
        """Return the pipeline of a job; None: this worker must not run the job.

        The worker does not have the pipeline, or the job is pinned to another version
        of its code.
        """
        is_pinned_out = job.pinned_to not in {"", self.code_version(job.pipeline)}
        return None if is_pinned_out else self.pipelines.get(job.pipeline)

    async def note_left(self, job: Job) -> None:
        """Note on a job, once, why this worker leaves it to others."""
        has = job.pipeline in self.pipelines
        await self.notes.left(job, self.code_version(job.pipeline) if has else None)

    def code_version(self, pipeline: str) -> str:
        """Return the code version of a pipeline here; empty: nothing tells it."""
        return self.code_versions.get(pipeline, "")
