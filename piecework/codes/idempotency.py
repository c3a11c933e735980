"""Codes of `idempotent`: the same operation is asked for again, or out of its turn."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

ROWS: Final = (
    Code(
        "idempotency.answer.not_kept",
        ErrorClass.PERMANENT,
        "The operation was carried out before, and its answer is not kept any more.",
        "Ask the other system for it; it is not done a second time.",
    ),
    Code(
        "idempotency.key.in_progress",
        ErrorClass.TRANSIENT,
        "The same operation is being carried out by somebody else right now.",
        "Ask again after the time that `retry_after` names; it is not done twice.",
    ),
    Code(
        "idempotency.key.mismatch",
        ErrorClass.PERMANENT,
        "The same key, or number, came with other arguments before.",
        "Give another operation another key or number; repeat one with its own "
        "arguments.",
    ),
    Code(
        "idempotency.key.unusable",
        ErrorClass.PERMANENT,
        "The arguments, the scope or the number do not make a stable key.",
        "Make it of text and numbers: `ByKey(of=lambda …: …)`; numbers count from 1.",
    ),
    Code(
        "idempotency.sequence.gap",
        ErrorClass.PERMANENT,
        "A number of a stream came before the one that is due.",
        "Send the number that the message names first.",
    ),
)
