"""What a caller is told when an operation is neither made nor answered."""

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
    Held,
    InDoubt,
    Mismatch,
    OutOfOrder,
    Slot,
    State,
    Verdict,
)


def refusal(verdict: Verdict, slot: Slot) -> PieceworkError:
    """Return the error that a verdict stands for."""
    name = slot.operation + (f", number {slot.number}," if slot.number else "")
    match verdict:
        case Ended(State.REFUSED, str(envelope)):
            return refused_before(ErrorEnvelope.model_validate_json(envelope))
        case Ended():
            message = f"{name} was carried out before; its answer is not kept."
            return PermanentError(message, code="idempotency.answer.not_kept")
        case Held(seconds):
            message = f"{name} is being carried out by somebody else."
            return TransientError(
                message, code="idempotency.key.in_progress", retry_after=seconds
            )
        case Mismatch():
            message = f"{name} was asked for under the same key with other arguments."
            return PermanentError(message, code="idempotency.key.mismatch")
        case OutOfOrder(expected):
            message = f"{name} came too early: number {expected} is due."
            return PermanentError(message, code="idempotency.sequence.gap")
        case InDoubt():
            return PermanentError(
                f"Nobody can tell whether {name} took place.",
                code="runtime.effect.unknown",
                next_step="Look in the other system. If it did not take place, call "
                "`release` with the same arguments; if it did, leave it so.",
            )
    message = f"{verdict} is no refusal"
    raise AssertionError(message)


def refused_before(envelope: ErrorEnvelope) -> PermanentError:
    """Return a remembered refusal as an error with the code that it had."""
    known = envelope.code in REGISTRY
    code = envelope.code if known else "runtime.stage.permanent"
    return PermanentError(envelope.message, code=code)
