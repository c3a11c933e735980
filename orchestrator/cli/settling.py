"""Read what a person says of an effect in doubt."""

from __future__ import annotations

import json

from orchestrator.cli.submitting import whoami
from orchestrator.doubt import Word
from piecework.errors import UsageError


def read_word(key: str, answer: str, reason: str, *, happened: bool | None) -> Word:
    """Return it, once it is complete.

    Raises:
        UsageError: `cli.usage.invalid`; `redrive.reason.missing`.
    """
    if happened is None:
        message = "Did it happen?"
        step = "Look in the other system, then say --happened or --did-not-happen."
        raise UsageError(message, next_step=step)
    if not reason.strip():
        message = "Settling an effect needs a reason; it stays in the record."
        step = "Add --reason 'where it was looked up'."
        raise UsageError(message, code="redrive.reason.missing", next_step=step)
    if not happened and answer != "null":
        message = "--answer is what a call returned that happened."
        raise UsageError(message, next_step="Leave it out, or say --happened.")
    try:
        json.loads(answer)
    except ValueError as error:
        message = f"--answer is no JSON: {error}."
        step = "Quote it for the shell: --answer '\"receipt-17\"'."
        raise UsageError(message, next_step=step) from error
    return Word(key, answer if happened else None, whoami(), reason)
