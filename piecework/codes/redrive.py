"""Codes of sending dead letters back to work."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

_P: Final = ErrorClass.PERMANENT

ROWS: Final = (
    Code(
        "redrive.reason.missing",
        _P,
        "A redrive or a discard without a reason would leave no trace of why.",
        "Say why: `piecework dlq redrive --job JOB --yes --reason …`.",
    ),
    Code(
        "redrive.payload.invalid",
        _P,
        "What is to be the new payload of a dead chunk is none.",
        "Correct the JSON of `--edit` or `--patch`; `--dry-run` tries it.",
    ),
    Code(
        "redrive.selection.empty",
        _P,
        "No dead letter fits the filter.",
        "See what there is with `piecework dlq list --job JOB`.",
    ),
)
