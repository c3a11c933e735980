"""Check the arguments of `effects resolve`."""

from __future__ import annotations

import json

from orchestrator.cli.formats import EffectOutcome
from orchestrator.cli.submitting import whoami
from orchestrator.doubt import ResolutionRequest
from piecework.errors import UsageError


def read_resolution(
    key: str, answer: str, reason: str, outcome: EffectOutcome | None
) -> ResolutionRequest:
    """Return the request if its arguments are complete and fit together.

    Raises:
        UsageError: `cli.usage.invalid`; `redrive.reason.missing`.
    """
    if outcome is None:
        message = "`effects resolve` requires --outcome."
        step = "Check the other system, then add --outcome happened or did-not-happen."
        raise UsageError(message, next_step=step)
    if not reason.strip():
        message = "`effects resolve` requires --reason, which is kept in the record."
        step = "Add --reason 'where the outcome was checked'."
        raise UsageError(message, code="redrive.reason.missing", next_step=step)
    happened = outcome is EffectOutcome.HAPPENED
    if not happened and answer != "null":
        message = "--answer is valid only with --outcome happened."
        step = "Remove --answer, or use --outcome happened."
        raise UsageError(message, next_step=step)
    try:
        json.loads(answer)
    except ValueError as error:
        message = f"--answer is not JSON: {error}."
        step = "Quote it for the shell: --answer '\"receipt-17\"'."
        raise UsageError(message, next_step=step) from error
    return ResolutionRequest(key, answer if happened else None, whoami(), reason)
