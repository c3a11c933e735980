"""Codes of `idempotent`: repeated, conflicting and out-of-order operations."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

ROWS: Final = (
    Code(
        "idempotency.answer.not_kept",
        ErrorClass.PERMANENT,
        "The operation was executed before, and its answer is not stored.",
        "Request the answer from the other system. The operation is not executed "
        "again.",
    ),
    Code(
        "idempotency.key.in_progress",
        ErrorClass.TRANSIENT,
        "The same operation is in progress in another call.",
        "Repeat the call after `retry_after` seconds. The operation is not "
        "executed twice.",
    ),
    Code(
        "idempotency.key.mismatch",
        ErrorClass.PERMANENT,
        "The same key or number was used before with other arguments.",
        "Use another key or number for another operation. Repeat an operation "
        "with its own arguments.",
    ),
    Code(
        "idempotency.key.unusable",
        ErrorClass.PERMANENT,
        "No stable key can be computed from the arguments, the scope or the number.",
        "Compute it from text and numbers: `ByKey(of=lambda …: …)`. Numbers start "
        "at 1.",
    ),
    Code(
        "idempotency.sequence.gap",
        ErrorClass.PERMANENT,
        "A number of a stream came before the next expected number.",
        "Send the number that the message names first.",
    ),
)
