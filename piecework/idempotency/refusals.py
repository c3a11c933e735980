"""The errors of an operation that is neither made nor answered from the store."""

from __future__ import annotations

from piecework.codes import REGISTRY
from piecework.errors import (
    ErrorEnvelope,
    PermanentError,
    PieceworkError,
    TransientError,
)
from piecework.idempotency.record import (
    Ended,
    InDoubt,
    InProgress,
    Mismatch,
    OutOfOrder,
    Slot,
    State,
    Verdict,
)


def refusal(verdict: Verdict, slot: Slot) -> PieceworkError:
    """Return the error for a verdict that is not a grant."""
    name = slot.operation + (f", number {slot.number}," if slot.number else "")
    match verdict:
        case Ended(State.REFUSED, str(envelope)):
            return stored_refusal(ErrorEnvelope.model_validate_json(envelope))
        case Ended():
            message = f"{name} was executed before; its answer is not stored."
            return PermanentError(message, code="idempotency.answer.not_kept")
        case InProgress(seconds):
            message = f"{name} is in progress in another call."
            return TransientError(
                message, code="idempotency.key.in_progress", retry_after=seconds
            )
        case Mismatch():
            message = f"{name} was called with the same key and other arguments."
            return PermanentError(message, code="idempotency.key.mismatch")
        case OutOfOrder(expected):
            message = f"{name} came too early: the next number is {expected}."
            return PermanentError(message, code="idempotency.sequence.gap")
        case InDoubt():
            return PermanentError(
                f"It is unknown whether {name} took place.",
                code="runtime.effect.unknown",
                next_step="Check in the other system. If it did not take place, call "
                "`release` with the same arguments. If it did, do nothing.",
            )
    message = f"{verdict} is not a refusal"
    raise AssertionError(message)


def stored_refusal(envelope: ErrorEnvelope) -> PermanentError:
    """Return a stored refusal as an error with its original code."""
    known = envelope.code in REGISTRY
    code = envelope.code if known else "runtime.stage.permanent"
    return PermanentError(envelope.message, code=code)
