"""Codes of redriving dead letters."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

_P: Final = ErrorClass.PERMANENT

ROWS: Final = (
    Code(
        "redrive.reason.missing",
        _P,
        "A redrive or a discard needs a reason, which is stored.",
        "Add one: `piecework dlq redrive --job JOB --yes --reason …`.",
    ),
    Code(
        "redrive.payload.invalid",
        _P,
        "The new payload of a dead-lettered chunk is not valid.",
        "Correct the JSON of `--edit` or `--patch`; `--dry-run` checks it.",
    ),
    Code(
        "redrive.selection.empty",
        _P,
        "No dead letter matches the filter.",
        "List the dead letters with `piecework dlq list --job JOB`.",
    ),
)
