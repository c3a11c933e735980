"""Codes of the worker: its messages, leases and state, and all that it runs."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass
from piecework.codes.runtime_stages import EFFECT, REDRIVE, SHOW, STAGE

_STATE: Final = (
    Code(
        "runtime.object.missing",
        ErrorClass.STATE,
        "The record names an object in S3 that is gone, or that may not be read: S3 "
        "tells the two apart only for who may list the bucket.",
        "Nothing at first: what can be made again is; look for deletions or lifecycle "
        "rules on the bucket, and for a missing right.",
    ),
    Code(
        "runtime.object.too_large",
        ErrorClass.PERMANENT,
        "The record names an object in S3 that is larger than any that we write.",
        f"Find who replaced it, and put back the version before; then {REDRIVE}.",
    ),
    Code(
        "runtime.state.checkpoint_corrupt",
        ErrorClass.STATE,
        "A checkpoint's content is not what was written.",
        "Nothing at first: the stage before it is run again.",
    ),
    Code(
        "runtime.state.checkpoint_missing",
        ErrorClass.STATE,
        "The record names a checkpoint that is absent.",
        "Nothing at first: the stage is run again from the last one that is there.",
    ),
)

_MESSAGE: Final = (
    Code(
        "runtime.message.malformed",
        ErrorClass.PERMANENT,
        "A message in the queue is not one of ours or is damaged.",
        "Find who else sends to the queue; the chunk itself is sent again by "
        "`piecework reconcile`.",
    ),
    Code(
        "runtime.message.schema_too_new",
        ErrorClass.PERMANENT,
        "A message says that it is of a newer version, but not which chunk it is for.",
        "Find who else sends to the queue; a chunk is sent again by its record.",
    ),
    Code(
        "runtime.message.orphan",
        ErrorClass.PERMANENT,
        "A message names a chunk that has no record.",
        "Check with `piecework doctor` that queue and tables belong together.",
    ),
    Code(
        "runtime.record.schema_too_new",
        ErrorClass.TRANSIENT,
        "What is stored was written by a later version than this one.",
        "Install the later version, and ask again; workers of it go on by themselves.",
    ),
    Code(
        "runtime.payload.corrupt",
        ErrorClass.PERMANENT,
        "The payload's SHA-256 is not the one noted at submit.",
        "Restore the object in S3 or submit the input again as a new job.",
    ),
    Code(
        "runtime.payload.invalid",
        ErrorClass.PERMANENT,
        "The payload does not fit the pipeline's payload type in this worker.",
        f"Deploy the pipeline version that the job was made with, then {REDRIVE}.",
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
        "An item or an object of ours is not as it was written: somebody edited it.",
        "Put back what the message names, from a backup of the table or the bucket; "
        "its job waits for that.",
    ),
    Code(
        "runtime.value.invalid",
        ErrorClass.PERMANENT,
        "A value inside a stage did not fit its pydantic model.",
        f"Read which field with {SHOW}, correct the stage, then {REDRIVE}.",
    ),
    Code(
        "runtime.value.too_large",
        ErrorClass.PERMANENT,
        "A function returned more than 16 MiB of JSON.",
        "Write it to the bucket and return where it lies, or make smaller chunks; then "
        f"{REDRIVE}.",
    ),
    Code(
        "runtime.value.unreadable",
        ErrorClass.PERMANENT,
        "A stored value no longer fits the return annotation of its function.",
        f"Deploy a type that reads the old values too, then {REDRIVE}.",
    ),
    Code(
        "runtime.value.unserialisable",
        ErrorClass.PERMANENT,
        "A function returned what its return annotation does not say.",
        f"Correct the annotation or return what it says, then {REDRIVE}.",
    ),
)

_WORKER: Final = (
    Code(
        "runtime.worker.exhausted",
        ErrorClass.TRANSIENT,
        "The worker ran out of memory, disk or file handles.",
        "Give the workers more, or lower `PIECEWORK_MAX_CHUNKS`; the chunk is tried "
        "again.",
    ),
    Code(
        "runtime.attempts.exhausted",
        ErrorClass.PERMANENT,
        "The chunk has used all its attempts.",
        f"Read the trail with {SHOW}, correct the cause, then {REDRIVE}.",
    ),
    Code(
        "runtime.breaker.open",
        ErrorClass.TRANSIENT,
        "A call was not made: the calls to its dependency fail, and all workers wait.",
        "Nothing: the chunk waits, at no attempt's cost, until one call is tried; "
        "`piecework jobs show JOB` says until when.",
    ),
    Code(
        "runtime.budget.retry_exhausted",
        ErrorClass.TRANSIENT,
        "The run's waits, or the share of retries among the calls to a dependency, are "
        "used up.",
        "Nothing at first: the chunk is put back and tried again later.",
    ),
    Code(
        "runtime.join.failed",
        ErrorClass.PERMANENT,
        "The join of the job failed; every chunk's result is safe.",
        f"Read why with `piecework jobs show JOB`, correct it, then {REDRIVE}.",
    ),
    Code(
        "runtime.lease.lost",
        ErrorClass.STATE,
        "Another worker took the chunk over, or the lease ran out unrenewed.",
        "Nothing: whoever holds the lease goes on; this worker wrote nothing more.",
    ),
    Code(
        "runtime.worker.lost",
        ErrorClass.PERMANENT,
        "Worker after worker died with this chunk until SQS took its message away.",
        f"Look for memory or crashes in the workers' logs, then {REDRIVE}.",
    ),
)

ROWS: Final = tuple(
    sorted((*STAGE, *_STATE, *EFFECT, *_MESSAGE, *_WORKER), key=lambda row: row.code)
)
