"""Codes of the worker: its messages, leases, state and stored values."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass
from piecework.codes.runtime_stages import EFFECT, REDRIVE, SHOW, STAGE

_STATE: Final = (
    Code(
        "runtime.object.missing",
        ErrorClass.STATE,
        "An object in S3 that the record names does not exist or may not be read. "
        "S3 distinguishes the two only for roles that may list the bucket.",
        "Wait: the stage is run again if possible. Check the bucket for "
        "deletions, lifecycle rules and a missing permission.",
    ),
    Code(
        "runtime.object.too_large",
        ErrorClass.PERMANENT,
        "An object in S3 that the record names is larger than any that Piecework "
        "writes.",
        "Find out what replaced it and restore the version before, then run "
        f"{REDRIVE}.",
    ),
    Code(
        "runtime.state.checkpoint_corrupt",
        ErrorClass.STATE,
        "The content of a checkpoint is not what was written.",
        "Wait: the stage before it is run again.",
    ),
    Code(
        "runtime.state.checkpoint_missing",
        ErrorClass.STATE,
        "A checkpoint that the record names does not exist.",
        "Wait: the stages after the last existing checkpoint are run again.",
    ),
)

_MESSAGE: Final = (
    Code(
        "runtime.message.malformed",
        ErrorClass.PERMANENT,
        "A message in the queue is damaged or does not come from Piecework.",
        "Find out what else sends to the queue. `piecework reconcile` sends the "
        "chunk's message again.",
    ),
    Code(
        "runtime.message.schema_too_new",
        ErrorClass.PERMANENT,
        "A message has a newer schema version and does not name its chunk.",
        "Find out what else sends to the queue. The chunk's message is sent again "
        "from its record.",
    ),
    Code(
        "runtime.message.orphan",
        ErrorClass.PERMANENT,
        "A message names a chunk that has no record.",
        "Run `piecework doctor` to check that queue and tables belong together.",
    ),
    Code(
        "runtime.record.schema_too_new",
        ErrorClass.TRANSIENT,
        "A later version of Piecework wrote this record.",
        "Install that version and run the command again. Workers of that version "
        "continue the work.",
    ),
    Code(
        "runtime.payload.corrupt",
        ErrorClass.PERMANENT,
        "The payload's SHA-256 differs from the one that was recorded at submit.",
        "Restore the object in S3, or submit the input again as a new job.",
    ),
    Code(
        "runtime.payload.invalid",
        ErrorClass.PERMANENT,
        "The payload does not match the payload type of this worker's pipeline.",
        f"Deploy the pipeline version of the job, then run {REDRIVE}.",
    ),
    Code(
        "runtime.pipeline.unknown",
        ErrorClass.TRANSIENT,
        "This worker does not have the pipeline that the job names.",
        "Start a worker with `piecework-worker --pipelines MODULE`; the chunk waits.",
    ),
    Code(
        "runtime.record.unreadable",
        ErrorClass.PERMANENT,
        "A stored item or object is not as Piecework wrote it: it was edited.",
        "Restore what the message names from a backup of the table or the bucket. "
        "The job waits for that.",
    ),
    Code(
        "runtime.value.invalid",
        ErrorClass.PERMANENT,
        "A value inside a stage does not match its pydantic model.",
        f"See the field with {SHOW}, correct the stage, then run {REDRIVE}.",
    ),
    Code(
        "runtime.value.too_large",
        ErrorClass.PERMANENT,
        "A function returned more than 16 MiB of JSON.",
        "Write the data to the bucket and return its address, or make smaller "
        f"chunks, then run {REDRIVE}.",
    ),
    Code(
        "runtime.value.unreadable",
        ErrorClass.PERMANENT,
        "A stored value does not match the return annotation of its function any more.",
        f"Deploy a type that also reads the old values, then run {REDRIVE}.",
    ),
    Code(
        "runtime.value.unserialisable",
        ErrorClass.PERMANENT,
        "A function returned a value that does not match its return annotation.",
        f"Correct the annotation or the value, then run {REDRIVE}.",
    ),
)

_WORKER: Final = (
    Code(
        "runtime.worker.exhausted",
        ErrorClass.TRANSIENT,
        "The worker ran out of memory, disk space or file handles.",
        "Give the workers more, or lower `PIECEWORK_MAX_CHUNKS`. The chunk is retried.",
    ),
    Code(
        "runtime.attempts.exhausted",
        ErrorClass.PERMANENT,
        "The chunk has used all its attempts.",
        f"Read the error history with {SHOW}, correct the cause, then run {REDRIVE}.",
    ),
    Code(
        "runtime.breaker.open",
        ErrorClass.TRANSIENT,
        "A call was not made because the circuit breaker of its dependency is "
        "open: too many of the fleet's calls to it failed.",
        "Wait: the chunk is deferred without spending an attempt. `piecework jobs "
        "show JOB` shows until when.",
    ),
    Code(
        "runtime.budget.retry_exhausted",
        ErrorClass.TRANSIENT,
        "The retry budget of the run or of the fleet is exhausted.",
        "Wait: the chunk is retried later.",
    ),
    Code(
        "runtime.join.failed",
        ErrorClass.PERMANENT,
        "The join of the job failed. The results of all chunks are stored.",
        "Read the error with `piecework jobs show JOB`, correct the cause, then "
        f"run {REDRIVE}.",
    ),
    Code(
        "runtime.lease.lost",
        ErrorClass.STATE,
        "Another worker took over the chunk, or the lease expired without renewal.",
        "Do nothing: the worker that owns the lease continues. This worker wrote "
        "nothing more.",
    ),
    Code(
        "runtime.worker.lost",
        ErrorClass.PERMANENT,
        "Several workers in a row died with this chunk, until SQS moved its "
        "message to the dead-letter queue.",
        f"Check the workers' logs for memory limits and crashes, then run {REDRIVE}.",
    ),
)

ROWS: Final = tuple(
    sorted((*STAGE, *_STATE, *EFFECT, *_MESSAGE, *_WORKER), key=lambda row: row.code)
)
