"""The cause of a compensation that a cancel requests for an unfailed chunk."""

from __future__ import annotations

from typing import Final

from piecework.codes import ErrorClass
from piecework.errors import ErrorEnvelope
from piecework.model import ChunkRef, iso
from piecework.pipeline import Pipeline

#: A chunk that compensates with this code ends CANCELLED; with any other code, DEAD.
CANCEL_CODE: Final = "job.cancel.requested"


def cancellation_cause(ref: ChunkRef, stage: str, at: float) -> ErrorEnvelope:
    """Return the envelope that records store as the cause of the compensation."""
    return ErrorEnvelope(
        code=CANCEL_CODE,
        error_class=ErrorClass.PERMANENT,
        message="The job was cancelled, and the chunk's stages are compensated.",
        stage=stage,
        at=iso(at),
        correlation_id=f"{ref.job}/{ref.chunk}",
    )


def may_compensate(pipeline: Pipeline, stage: str) -> bool:
    """Return whether a chunk at this stage has not reached its pivot yet."""
    names = [s.name for s in pipeline.stages]
    return stage not in names or names.index(stage) < pipeline.pivot_index
