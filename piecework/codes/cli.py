"""Codes of the command line."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

_P: Final = ErrorClass.PERMANENT

ROWS: Final = (
    Code(
        "cli.confirmation.needed",
        _P,
        "The command changes things and there is no terminal to ask at.",
        "Look first, with `--dry-run` where there is one, then add `--yes`.",
    ),
    Code(
        "cli.usage.invalid",
        _P,
        "The command's arguments do not fit together.",
        "See `piecework COMMAND --help`.",
    ),
    Code(
        "cli.wait.timeout",
        ErrorClass.TRANSIENT,
        "The job was not finished when the time to wait for it was over.",
        "The job goes on: look with `piecework jobs watch JOB`.",
    ),
)
