"""Codes of the settings."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

_P: Final = ErrorClass.PERMANENT

ROWS: Final = (
    Code(
        "config.price.missing",
        _P,
        "The table of prices has no price for this resource in this region.",
        "Add one with `--prices FILE`, or choose another `--region`.",
    ),
    Code(
        "config.prices.invalid",
        _P,
        "The file is not a valid table of prices.",
        "Correct what the message names; see `docs/cost.md`.",
    ),
    Code(
        "config.region.missing",
        _P,
        "No AWS region is set.",
        "Set `AWS_REGION`, then run `piecework doctor`.",
    ),
    Code(
        "config.setting.invalid",
        _P,
        "A setting has an invalid value, or two settings contradict each other.",
        "Correct the variable that the message names, then run `piecework doctor`.",
    ),
)
