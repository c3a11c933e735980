"""A job that a stage of another job has started: its child.

The id of a child comes from the key of the call that starts it. So a stage that runs
again finds the child that it started before, whatever has died meanwhile. The record of
the child says whether it has ended; its parent keeps no second state of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from piecework.domain import keys
from piecework.domain.fields import Number, Text
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.rows import Row
from piecework.errors import PermanentError, UsageError

if TYPE_CHECKING:
    from piecework.domain.chunk import Chunk

#: Jobs above a child, at most: its parent, the parent of that, and so on to the root.
MOST_ABOVE: Final = 8
#: Seconds after which a stage that waits for its child looks by itself. The end of the
#: child wakes it; this bounds what the loss of that would cost.
LOOK_S: Final = 86_400.0
#: The code of a cancel that follows that of the parent.
PARENT_CANCELLED_CODE: Final = "job.parent.cancelled"
#: The code of a child that was deleted, or is not of the stage that asks for it.
GONE_CODE: Final = "runtime.map.child_gone"
#: The code of a child that the budget of its root has no room for.
OVER_BUDGET_CODE: Final = "runtime.map.over_budget"
#: Characters of the parent's id in that of its child.
PARENT_PART: Final = 40


def child_id(ref: ChunkRef, stage: str, pipeline: str, digest: str, number: int) -> str:
    """Return the id of the child that a call starts; equal for the same call.

    Args:
        ref: The chunk whose stage calls.
        stage: The name of the stage.
        pipeline: The name of the child's pipeline.
        digest: The hash of the rows.
        number: Tells equal calls of a stage apart, from 1.
    """
    place = (ref.tenant, ref.job, ref.chunk, stage, pipeline, digest, number)
    return f"{ref.job[:PARENT_PART]}-{keys.sha256_of('map', *place)[:20]}"


def lineage_below(parent: str, above: Sequence[str], pipeline: str) -> list[str]:
    """Return the pipelines above a child, that of its root first.

    Args:
        parent: The pipeline of its parent.
        above: The pipelines above that, the root's first.
        pipeline: That of the child.

    Raises:
        UsageError: `pipeline.map.cycle`, `pipeline.map.too_deep`.
    """
    lineage = [*above, parent]
    if pipeline in lineage:
        way = " -> ".join([*lineage[lineage.index(pipeline) :], pipeline])
        message = f"Pipeline {pipeline!r} would start itself: {way}."
        raise UsageError(message, code="pipeline.map.cycle")
    if len(lineage) > MOST_ABOVE:
        message = f"A job of {pipeline!r} would have {len(lineage)} jobs above it."
        raise UsageError(message, code="pipeline.map.too_deep")
    return lineage


@dataclass(frozen=True, slots=True)
class ChildStart:
    """The child for which a claim ends.

    Attributes:
        job: Its id.
        pipeline: Its pipeline.
        stage: The stage that waits for it.
        rows: The number of its chunks.
        facts: The row of the job to create; None: it exists, and has not ended.
    """

    job: str
    pipeline: str
    stage: str
    rows: int
    facts: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ChildRow(Row):
    """A child of a job, beside the row of the job."""

    WHAT = "A child of a job"

    job = Text("The id of the child.")
    pipeline = Text("The pipeline of the child.")
    chunk = Number("The chunk that started it.")
    stage = Text("The stage that started it.")
    rows = Number("The number of its chunks.")
    started_at = Text("When it was started.")

    def ref(self, parent: JobRef) -> JobRef:
        """Return the name of the child."""
        return JobRef(parent.tenant, self.job)


#: Children of a stage of which a run must ask for one before it starts a further one.
MOST_UNASKED = 3


def started_before(chunk: Chunk, stage: str, version: str) -> list[str]:
    """Return the last children that this stage and this code have started, by id.

    Another generation may have another payload, and newer code other rows.
    """
    last = chunk.mapped
    same = (stage, chunk.gen, version)
    if (last.get("stage"), last.get("gen"), last.get("code_version", "")) != same:
        return []
    return [*last["jobs"]]


def require_stable(chunk: Chunk, stage: str, version: str, asked: set[str]) -> None:
    """Require that a stage which starts a further child has asked for one before.

    Raises:
        PermanentError: `runtime.map.rows_unstable`: it has asked for none of the last
            ones, so its rows differ in each run, and it would start children for ever.
    """
    known = started_before(chunk, stage, version)
    if len(known) < MOST_UNASKED or asked & {*known}:
        return
    message = (
        f"Stage {stage!r} asks `ctx.map` for other rows in each run: its last children "
        f"are {', '.join(known)}, and it has asked for none of them again."
    )
    raise PermanentError(message, code="runtime.map.rows_unstable")


def child_gone(job: str, why: str) -> PermanentError:
    """Return the error of a child whose results cannot be read."""
    return PermanentError(f"Child job {job} {why}.", code=GONE_CODE)
