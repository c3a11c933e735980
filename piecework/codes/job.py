"""Codes of looking at a job, its chunks and its dead letters."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

_P: Final = ErrorClass.PERMANENT

ROWS: Final = (
    Code(
        "job.chunk.not_found",
        _P,
        "The job has no chunk of this number.",
        "See its chunks with `piecework chunks list JOB`.",
    ),
    Code(
        "job.dead_letter.not_found",
        _P,
        "The chunk has no dead letter.",
        "See the job's dead letters with `piecework dlq list --job JOB`.",
    ),
    Code(
        "job.manifest.mismatch",
        ErrorClass.STATE,
        "The chunks on record are not exactly those of the job's manifest.",
        "Run `piecework reconcile`; if it stays, `piecework chunks list JOB`.",
    ),
    Code(
        "job.record.not_found",
        _P,
        "There is no job of this id for this tenant.",
        "See the jobs with `piecework jobs list`.",
    ),
    Code(
        "job.state.not_cancellable",
        _P,
        "The job has ended, or its join is running: there is nothing to cancel.",
        "See how it ended with `piecework jobs show JOB`.",
    ),
    Code(
        "job.state.not_finished",
        _P,
        "The job has not ended yet: it has no result as a whole, and is not resumed.",
        "Wait with `piecework jobs watch JOB`, or read `piecework results JOB "
        "--follow`.",
    ),
)
