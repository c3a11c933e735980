"""Codes of submitting a job."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

ROWS: Final = (
    Code(
        "submit.job.incomplete",
        ErrorClass.STATE,
        "The submit ended before all chunks were recorded.",
        "Run the same submit again, or `piecework reconcile`: both complete the job.",
    ),
    Code(
        "submit.token.conflict",
        ErrorClass.PERMANENT,
        "A job with this token exists and has other content.",
        "Use another `--job-id`, or see that job with `piecework jobs show JOB`.",
    ),
)
