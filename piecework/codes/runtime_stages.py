"""Codes of what a stage does: its end, its effects, and the way back."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

SHOW: Final = "`piecework dlq show JOB CHUNK`"
REDRIVE: Final = "`piecework dlq redrive --job JOB --yes --reason …`"

STAGE: Final = (
    Code(
        "runtime.stage.killed",
        ErrorClass.TRANSIENT,
        "The process of an isolated stage died under it; the message says of what.",
        "Nothing at first: the chunk is tried again. SIGKILL is mostly the kernel's, "
        f"for want of memory; correct the stage, then {REDRIVE}.",
    ),
    Code(
        "runtime.stage.out_of_memory",
        ErrorClass.TRANSIENT,
        "An isolated stage took more memory than it may.",
        "Raise its `memory_mb` or `PIECEWORK_STAGE_MEMORY_MB`, or make the chunks "
        f"smaller, then {REDRIVE}.",
    ),
    Code(
        "runtime.stage.permanent",
        ErrorClass.PERMANENT,
        "A stage raised PermanentError without a code of its own.",
        f"Read why with {SHOW}, correct it, then {REDRIVE}.",
    ),
    Code(
        "runtime.stage.policy",
        ErrorClass.POLICY,
        "A stage raised PolicyError without a code of its own.",
        f"Have a person look at the chunk: {SHOW}.",
    ),
    Code(
        "runtime.stage.not_found",
        ErrorClass.PERMANENT,
        "This pipeline does not have the stage at which the chunk stands; workers that "
        "may have it were waited for.",
        f"Deploy a pipeline with the old stage name, then {REDRIVE}.",
    ),
    Code(
        "runtime.stage.semantic",
        ErrorClass.SEMANTIC,
        "A stage raised SemanticError without a code of its own.",
        f"Read why with {SHOW}, correct the cause, then {REDRIVE}.",
    ),
    Code(
        "runtime.stage.stalled",
        ErrorClass.TRANSIENT,
        "A stage showed no progress for `stall_timeout_s` seconds and was given up.",
        "Call `ctx.progress()` in long loops or raise `PIECEWORK_STALL_TIMEOUT_S`; "
        f"see where it stood with {SHOW}.",
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
        f"then {REDRIVE}.",
    ),
    Code(
        "runtime.stage.transient",
        ErrorClass.TRANSIENT,
        "A stage raised TransientError without a code of its own.",
        f"Nothing at first: the chunk is tried again; at the end {REDRIVE}.",
    ),
    Code(
        "runtime.stage.unhandled",
        ErrorClass.PERMANENT,
        "A stage raised an exception that says nothing about trying again.",
        f"Read its type with {SHOW}, correct the stage, then {REDRIVE}.",
    ),
)

EFFECT: Final = (
    Code(
        "runtime.classifier.failed",
        ErrorClass.PERMANENT,
        "A dependency's `classify` raised, or returned what is no error of ours.",
        f"Correct it, then {REDRIVE}; `cause` names what it was asked about.",
    ),
    Code(
        "runtime.compensation.failed",
        ErrorClass.PERMANENT,
        "Undoing a stage failed; the other stages were undone all the same.",
        f"Undo it by hand: {SHOW} names the stage and its key.",
    ),
    Code(
        "runtime.effect.unknown",
        ErrorClass.PERMANENT,
        "A call that must not be repeated was begun and its end is not known.",
        "Look in the other system whether it happened, say so with `piecework effects "
        f"resolve`, then {REDRIVE}; `piecework effects list JOB` has the keys.",
    ),
    Code(
        "runtime.effect.void",
        ErrorClass.STATE,
        "An effect recorded for this chunk has since been undone.",
        "Nothing at first: the stage is run again with a fresh key.",
    ),
)
