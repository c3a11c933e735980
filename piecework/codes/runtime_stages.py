"""Codes of stages: their errors, effects and compensations."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

SHOW: Final = "`piecework dlq show JOB CHUNK`"
REDRIVE: Final = "`piecework dlq redrive --job JOB --yes --reason …`"

STAGE: Final = (
    Code(
        "runtime.stage.killed",
        ErrorClass.TRANSIENT,
        "The process of an isolated stage died; the message names the signal or "
        "the exit code.",
        "Wait: the chunk is retried. The kernel usually sends SIGKILL when memory "
        f"runs out. Correct the stage, then run {REDRIVE}.",
    ),
    Code(
        "runtime.stage.out_of_memory",
        ErrorClass.TRANSIENT,
        "An isolated stage used more memory than its limit.",
        "Raise its `memory_mb` or `PIECEWORK_STAGE_MEMORY_MB`, or make the chunks "
        f"smaller, then run {REDRIVE}.",
    ),
    Code(
        "runtime.stage.permanent",
        ErrorClass.PERMANENT,
        "A stage raised PermanentError without a code of its own.",
        f"Read the error with {SHOW}, correct the cause, then run {REDRIVE}.",
    ),
    Code(
        "runtime.stage.policy",
        ErrorClass.POLICY,
        "A stage raised PolicyError without a code of its own.",
        f"Review the chunk with {SHOW}.",
    ),
    Code(
        "runtime.stage.not_found",
        ErrorClass.PERMANENT,
        "This pipeline does not have the current stage of the chunk, and no "
        "worker with that stage took the chunk in time.",
        f"Deploy a pipeline with the old stage name, then run {REDRIVE}.",
    ),
    Code(
        "runtime.stage.semantic",
        ErrorClass.SEMANTIC,
        "A stage raised SemanticError without a code of its own.",
        f"Read the error with {SHOW}, correct the cause, then run {REDRIVE}.",
    ),
    Code(
        "runtime.stage.stalled",
        ErrorClass.TRANSIENT,
        "A stage showed no progress for `stall_timeout_s` seconds and was stopped.",
        "Call `ctx.progress()` in long loops or raise "
        f"`PIECEWORK_STALL_TIMEOUT_S`. {SHOW} shows where the stage stopped.",
    ),
    Code(
        "runtime.stage.state",
        ErrorClass.STATE,
        "A stage raised StateError without a code of its own.",
        "Wait: the last checkpoint is restored and the stage is run again.",
    ),
    Code(
        "runtime.stage.timeout",
        ErrorClass.TRANSIENT,
        "The chunk ran longer than `max_runtime_s` allows.",
        "Split the input into smaller chunks or raise `PIECEWORK_MAX_RUNTIME_S`, "
        f"then run {REDRIVE}.",
    ),
    Code(
        "runtime.stage.transient",
        ErrorClass.TRANSIENT,
        "A stage raised TransientError without a code of its own.",
        f"Wait: the chunk is retried. After its last attempt, run {REDRIVE}.",
    ),
    Code(
        "runtime.stage.unhandled",
        ErrorClass.PERMANENT,
        "A stage raised an exception that is not known to be transient.",
        f"See its type with {SHOW}, correct the stage, then run {REDRIVE}.",
    ),
)

EFFECT: Final = (
    Code(
        "runtime.classifier.failed",
        ErrorClass.PERMANENT,
        "A dependency's `classify` raised an error, or returned a value that is "
        "not a Piecework error.",
        f"Correct it, then run {REDRIVE}. `cause` names the original error.",
    ),
    Code(
        "runtime.compensation.failed",
        ErrorClass.PERMANENT,
        "The compensation of a stage failed. The other stages were compensated.",
        f"Compensate it by hand: {SHOW} names the stage and its key.",
    ),
    Code(
        "runtime.effect.unknown",
        ErrorClass.PERMANENT,
        "It is unknown whether a call that must not be repeated has happened.",
        "Check in the other system whether it happened. Record that with "
        f"`piecework effects resolve`, then run {REDRIVE}. `piecework effects list "
        "JOB` has the keys.",
    ),
    Code(
        "runtime.effect.void",
        ErrorClass.STATE,
        "An effect that was recorded for this chunk has been compensated since.",
        "Wait: the stage is run again with a new key.",
    ),
)
