"""Why a chunk turns back without having failed: a cancel wants it undone."""

from __future__ import annotations

from typing import Final

from piecework.codes import ErrorClass
from piecework.errors import ErrorEnvelope
from piecework.model import ChunkRef, iso
from piecework.pipeline import Pipeline

#: A chunk that turned back for this reason ends CANCEL_CODE; for any other, DEAD.
CANCEL_CODE: Final = "job.cancel.requested"


def cancellation_cause(ref: ChunkRef, stage: str, at: float) -> ErrorEnvelope:
    """Return the reason in the form in which records keep reasons."""
    return ErrorEnvelope(
        code=CANCEL_CODE,
        error_class=ErrorClass.PERMANENT,
        message="The job was cancelled, and what the chunk had done is undone.",
        stage=stage,
        at=iso(at),
        correlation_id=f"{ref.job}/{ref.chunk}",
    )


def may_compensate(pipeline: Pipeline, stage: str) -> bool:
    """Say whether a chunk that stands at a stage has not entered its pivot yet."""
    names = [s.name for s in pipeline.stages]
    return stage not in names or names.index(stage) < pipeline.pivot_index
