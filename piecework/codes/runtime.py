"""Codes of the worker: its messages, stages, leases, effects and state."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

_SHOW: Final = "`piecework dlq show JOB CHUNK`"
_REDRIVE: Final = "`piecework dlq redrive --job JOB --yes --reason …`"

_STAGE: Final = (
    Code(
        "runtime.stage.killed",
        ErrorClass.TRANSIENT,
        "The process of an isolated stage died under it; the message says of what.",
        "Nothing at first: the chunk is tried again. SIGKILL is mostly the kernel's, "
        f"for want of memory; correct the stage, then {_REDRIVE}.",
    ),
    Code(
        "runtime.stage.out_of_memory",
        ErrorClass.TRANSIENT,
        "An isolated stage took more memory than it may.",
        "Raise its `memory_mb` or `PIECEWORK_STAGE_MEMORY_MB`, or make the chunks "
        f"smaller, then {_REDRIVE}.",
    ),
    Code(
        "runtime.stage.permanent",
        ErrorClass.PERMANENT,
        "A stage raised PermanentError without a code of its own.",
        f"Read why with {_SHOW}, correct it, then {_REDRIVE}.",
    ),
    Code(
        "runtime.stage.policy",
        ErrorClass.POLICY,
        "A stage raised PolicyError without a code of its own.",
        f"Have a person look at the chunk: {_SHOW}.",
    ),
    Code(
        "runtime.stage.renamed",
        ErrorClass.PERMANENT,
        "The pipeline no longer has the stage at which the chunk stands.",
        f"Deploy a pipeline with the old stage name, then {_REDRIVE}.",
    ),
    Code(
        "runtime.stage.semantic",
        ErrorClass.SEMANTIC,
        "A stage raised SemanticError without a code of its own.",
        f"Read why with {_SHOW}, correct the cause, then {_REDRIVE}.",
    ),
    Code(
        "runtime.stage.stalled",
        ErrorClass.TRANSIENT,
        "A stage showed no progress for `stall_s` seconds and was given up.",
        "Call `ctx.progress()` in long loops or raise `PIECEWORK_STALL_S`; "
        f"see where it stood with {_SHOW}.",
    ),
    Code(
        "runtime.stage.state",
        ErrorClass.STATE,
        "A stage raised StateError without a code of its own.",
        "Nothing at first: the last checkpoint is restored and the stage run again.",
    ),
    Code(
        "runtime.stage.timeout",
        ErrorClass.TRANSIENT,
        "The chunk ran longer than `max_runtime_s` allows.",
        "Split the input into smaller chunks or raise `PIECEWORK_MAX_RUNTIME_S`, "
        f"then {_REDRIVE}.",
    ),
    Code(
        "runtime.stage.transient",
        ErrorClass.TRANSIENT,
        "A stage raised TransientError without a code of its own.",
        f"Nothing at first: the chunk is tried again; at the end {_REDRIVE}.",
    ),
    Code(
        "runtime.stage.unhandled",
        ErrorClass.PERMANENT,
        "A stage raised an exception that says nothing about trying again.",
        f"Read its type with {_SHOW}, correct the stage, then {_REDRIVE}.",
    ),
)

_STATE: Final = (
    Code(
        "runtime.object.missing",
        ErrorClass.STATE,
        "The record names an object in S3 that is gone.",
        "Nothing at first: what can be made again is; look for deletions or lifecycle "
        "rules on the bucket.",
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

_EFFECT: Final = (
    Code(
        "runtime.classifier.failed",
        ErrorClass.PERMANENT,
        "A dependency's `classify` raised, or returned what is no error of ours.",
        f"Correct it, then {_REDRIVE}; `cause` names what it was asked about.",
    ),
    Code(
        "runtime.compensation.failed",
        ErrorClass.PERMANENT,
        "Undoing a stage failed; the other stages were undone all the same.",
        f"Undo it by hand: {_SHOW} names the stage and its key.",
    ),
    Code(
        "runtime.effect.unknown",
        ErrorClass.PERMANENT,
        "A call that must not be repeated was begun and its end is not known.",
        f"Look in the other system whether it happened ({_SHOW} has the key), then "
        f"{_REDRIVE}.",
    ),
    Code(
        "runtime.effect.void",
        ErrorClass.STATE,
        "An effect recorded for this chunk has since been undone.",
        "Nothing at first: the stage is run again with a fresh key.",
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
        "runtime.message.newer",
        ErrorClass.PERMANENT,
        "A message of a newer version was received ten times, and never by a worker "
        "that reads it.",
        "Deploy workers of that version; the chunk is sent again by its record.",
    ),
    Code(
        "runtime.message.orphan",
        ErrorClass.PERMANENT,
        "A message names a chunk that has no record.",
        "Check with `piecework doctor` that queue and tables belong together.",
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
        f"Deploy the pipeline version that the job was made with, then {_REDRIVE}.",
    ),
    Code(
        "runtime.pipeline.unknown",
        ErrorClass.TRANSIENT,
        "This worker does not have the pipeline that the job names.",
        "Start a worker with `piecework-worker --pipelines MODULE`; the chunk waits.",
    ),
    Code(
        "runtime.value.invalid",
        ErrorClass.PERMANENT,
        "A value inside a stage did not fit its pydantic model.",
        f"Read which field with {_SHOW}, correct the stage, then {_REDRIVE}.",
    ),
    Code(
        "runtime.value.unreadable",
        ErrorClass.PERMANENT,
        "A stored value no longer fits the return annotation of its function.",
        f"Deploy a type that reads the old values too, then {_REDRIVE}.",
    ),
    Code(
        "runtime.value.unserialisable",
        ErrorClass.PERMANENT,
        "A function returned what its return annotation does not say.",
        f"Correct the annotation or return what it says, then {_REDRIVE}.",
    ),
)

_WORKER: Final = (
    Code(
        "runtime.worker.exhausted",
        ErrorClass.TRANSIENT,
        "The worker ran out of memory, disk or file handles.",
        "Give the workers more, or lower `PIECEWORK_CONCURRENCY`; the chunk is tried "
        "again.",
    ),
    Code(
        "runtime.attempts.exhausted",
        ErrorClass.PERMANENT,
        "The chunk has used all its attempts.",
        f"Read the trail with {_SHOW}, correct the cause, then {_REDRIVE}.",
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
        f"Read why with `piecework jobs show JOB`, correct it, then {_REDRIVE}.",
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
        f"Look for memory or crashes in the workers' logs, then {_REDRIVE}.",
    ),
)

ROWS: Final = tuple(
    sorted((*_STAGE, *_STATE, *_EFFECT, *_MESSAGE, *_WORKER), key=lambda row: row.code)
)
