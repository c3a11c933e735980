"""The child jobs of a claimed chunk: found by their id, started, or read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from piecework.domain.child import ChildStart, child_gone, require_stable
from piecework.domain.claim import Claim
from piecework.domain.job import Job
from piecework.domain.map_rows import MapRows
from piecework.domain.outcome import Mapped
from piecework.domain.protocols import ChildEnd, WaitRequestedError
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus
from piecework.errors import UsageError
from piecework.jobs.child_results import StoredChildResults
from piecework.jobs.child_start import prepare_child
from piecework.pipelines import Pipeline
from piecework.runtime import Runtime


@dataclass(frozen=True, slots=True)
class ChunkChildren:
    """The children of one claimed chunk.

    Attributes:
        job: The job of the chunk.
        pipelines, code_versions: Those of this worker, by the name of the pipeline.
    """

    rt: Runtime
    claim: Claim
    job: Job
    pipelines: Mapping[str, Pipeline]
    code_versions: Mapping[str, str]
    #: The children that this claim has asked for, by id.
    asked: set[str] = field(default_factory=set)

    async def find(self, job: str, stage: str, rows: MapRows) -> ChildEnd:
        """Return the end of a child; start it, and wait for it: see `Children`."""
        ref = JobRef(self.claim.ref.tenant, job)
        child = await self.rt.jobs.read(ref)
        self.asked.add(job)
        if child is None:
            version = self.claim.code_version
            require_stable(self.claim.chunk, stage, version, self.asked)
            pipeline = self.pipeline_of(rows.pipeline.name)
            version = self.code_versions.get(rows.pipeline.name, "")
            place = (self.job, self.claim.ref, ref, stage)
            start = await prepare_child(self.rt, *place, pipeline, rows, version)
            raise WaitRequestedError(Mapped(start))
        mine = (child.parent_job, child.parent_chunk)
        if child.status.gone:
            raise child_gone(job, "was deleted")
        if mine != (self.claim.ref.job, self.claim.ref.chunk):
            raise child_gone(job, "is not of this stage")
        if child.status.is_open:
            waits = ChildStart(job, child.pipeline, stage, child.chunks)
            raise WaitRequestedError(Mapped(waits))
        succeeded = (child.outcomes or {}).get(ChunkStatus.SUCCEEDED, 0)
        stored = StoredChildResults(self.rt, child)
        return ChildEnd(str(child.status), int(succeeded), stored)

    def pipeline_of(self, name: str) -> Pipeline:
        """Return the pipeline of a child, which this worker could run, too.

        Raises:
            UsageError: `pipeline.map.unknown`.
        """
        found = self.pipelines.get(name)
        if found is None:
            message = f"This worker does not run pipeline {name!r}."
            raise UsageError(message, code="pipeline.map.unknown")
        return found
