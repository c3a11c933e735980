"""Codes of the command line."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

_P: Final = ErrorClass.PERMANENT

ROWS: Final = (
    Code(
        "cli.confirmation.needed",
        _P,
        "The command changes data and there is no terminal for a confirmation.",
        "Check the change with `--dry-run` if the command has it, then add `--yes`.",
    ),
    Code(
        "cli.usage.invalid",
        _P,
        "The command's arguments are not valid together.",
        "See `piecework COMMAND --help`.",
    ),
    Code(
        "cli.wait.timeout",
        ErrorClass.TRANSIENT,
        "The job had not ended when the time to wait was over.",
        "The job goes on. Watch it with `piecework jobs watch JOB`.",
    ),
)
