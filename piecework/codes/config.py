"""Codes of the settings."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

_P: Final = ErrorClass.PERMANENT

ROWS: Final = (
    Code(
        "config.region.missing",
        _P,
        "No AWS region is set.",
        "Set `AWS_REGION`, then `piecework doctor`.",
    ),
    Code(
        "config.setting.invalid",
        _P,
        "A setting has no valid value, or two settings contradict each other.",
        "Correct the variable that the message names, then `piecework doctor`.",
    ),
)
