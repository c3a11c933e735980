"""Codes of a job as a whole: looking at it, cancelling it, its end."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

_P: Final = ErrorClass.PERMANENT

ROWS: Final = (
    Code(
        "job.cancel.requested",
        _P,
        "Somebody cancelled the job; of a chunk: what it had done was undone for that.",
        "See who and why with `piecework jobs show JOB`; `piecework jobs resume JOB` "
        "does what is missing.",
    ),
    Code(
        "job.cancel.without_compensation",
        _P,
        "The job is being cancelled already, without compensation.",
        "Wait until it is CANCELLED, then `piecework jobs resume JOB` and "
        "`piecework jobs cancel JOB --compensate`.",
    ),
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
        "job.deadline.passed",
        _P,
        "The job had not ended at its deadline: it was cancelled, and what its chunks "
        "had done was undone.",
        "Take it up with `piecework jobs resume JOB --deadline 2h`, or without one.",
    ),
    Code(
        "job.effect.not_found",
        _P,
        "The chunk has no effect in doubt of this key, or more than one.",
        "See the keys with `piecework effects list JOB`.",
    ),
    Code(
        "job.effect.not_resolved",
        _P,
        "The chunk is being worked on, or the effect is not in doubt any more.",
        "Look again with `piecework effects list JOB`, once the chunk has ended.",
    ),
    Code(
        "job.manifest.mismatch",
        ErrorClass.STATE,
        "The chunks on record are not exactly those of the job's manifest.",
        "Run `piecework reconcile`; if it stays, `piecework chunks list JOB`.",
    ),
    Code(
        "job.notification.failed",
        _P,
        "The pipeline's notify hook failed each time that it was told of the job.",
        "Read why with `piecework jobs show JOB`; nobody is told by itself any more.",
    ),
    Code(
        "job.record.not_found",
        _P,
        "There is no job of this id for this tenant.",
        "See the jobs with `piecework jobs list`.",
    ),
    Code(
        "job.resume.nothing_left",
        _P,
        "Every chunk of the job has a result or was given up by a discard, and its "
        "join has run.",
        "Read what there is with `piecework results JOB`.",
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
