"""Codes of a job as a whole: reading it, cancelling it, its end."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

_P: Final = ErrorClass.PERMANENT

ROWS: Final = (
    Code(
        "job.cancel.requested",
        _P,
        "The job was cancelled. A dead letter with this code: the chunk's stages "
        "were compensated for that reason.",
        "`piecework jobs show JOB` shows the actor and the reason. `piecework "
        "jobs retry JOB` runs the missing chunks.",
    ),
    Code(
        "job.cancel.without_compensation",
        _P,
        "The job is already being cancelled, without compensation.",
        "Wait until it is CANCELLED, then run `piecework jobs retry JOB` and "
        "`piecework jobs cancel JOB --compensate`.",
    ),
    Code(
        "job.chunk.not_found",
        _P,
        "The job has no chunk with this number.",
        "List its chunks with `piecework chunks list JOB`.",
    ),
    Code(
        "job.dead_letter.not_found",
        _P,
        "The chunk has no dead letter.",
        "List the job's dead letters with `piecework dlq list --job JOB`.",
    ),
    Code(
        "job.deadline.passed",
        _P,
        "The job had not ended at its deadline. It was cancelled and its chunks "
        "were compensated.",
        "Run `piecework jobs retry JOB --deadline 2h`, or leave out the deadline.",
    ),
    Code(
        "job.effect.not_found",
        _P,
        "The chunk has no effect in doubt with this key, or more than one.",
        "List the keys with `piecework effects list JOB`.",
    ),
    Code(
        "job.effect.not_resolved",
        _P,
        "A worker has the chunk, or the effect is not in doubt any more.",
        "Run `piecework effects list JOB` again after the chunk has ended.",
    ),
    Code(
        "job.manifest.mismatch",
        ErrorClass.STATE,
        "The recorded chunks differ from the chunks of the job's manifest.",
        "Run `piecework reconcile`. If the error persists, compare with "
        "`piecework chunks list JOB`.",
    ),
    Code(
        "job.notification.failed",
        _P,
        "The pipeline's notify hook failed at every attempt.",
        "`piecework jobs show JOB` shows the last error. The notification is not "
        "sent again.",
    ),
    Code(
        "job.record.not_found",
        _P,
        "The tenant has no job with this id.",
        "List the jobs with `piecework jobs list`.",
    ),
    Code(
        "job.retry.nothing_left",
        _P,
        "Every chunk of the job has a result or was discarded, and its join has run.",
        "Read the results with `piecework results JOB`.",
    ),
    Code(
        "job.state.not_cancellable",
        _P,
        "The job has ended, or its join is running: it cannot be cancelled.",
        "See its status with `piecework jobs show JOB`.",
    ),
    Code(
        "job.state.not_finished",
        _P,
        "The job has not ended, so it has no complete result and cannot be retried.",
        "Wait with `piecework jobs watch JOB`, or run `piecework results JOB "
        "--follow`.",
    ),
)
