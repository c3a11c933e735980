"""How the error of a call crosses to the child: as itself, where the child has it."""

from __future__ import annotations

from collections.abc import Mapping

from piecework.classify import classify, mark, noted
from piecework.errors import (
    ErrorEnvelope,
    PermanentError,
    PieceworkError,
    PolicyError,
    RemoteError,
    SemanticError,
    StateError,
    StoreError,
    TransientError,
)
from workers.isolation.messages import Fault

OURS: Mapping[str, type[PieceworkError]] = {
    kind.__name__: kind
    for kind in (
        PermanentError,
        PolicyError,
        SemanticError,
        StateError,
        StoreError,
        TransientError,
    )
}


class AttemptError(RemoteError):
    """What a function raised in the child."""

    def __init__(self, envelope: ErrorEnvelope, attempt: int) -> None:
        """Remember which attempt it was."""
        super().__init__(envelope)
        self.attempt = attempt


class PieceworkAttemptError(AttemptError, PieceworkError):
    """An error of ours that a function raised: the other side has answered."""


def fault_from_error(error: Exception, layer: str) -> Fault:
    """Return an error of a call in the form in which it crosses."""
    attempt = error.attempt if isinstance(error, AttemptError) else None
    envelope = noted(error) or classify(error, layer=layer)
    return Fault(type(error).__name__, envelope, attempt)


def error_from_fault(
    fault: Fault, raised: Mapping[int, BaseException]
) -> BaseException:
    """Return what `ctx.call` raises: what it would raise in the worker itself."""
    if fault.attempt is not None and fault.attempt in raised:
        error = raised[fault.attempt]
    else:
        error = rebuild_error(fault)
    mark(error, fault.envelope)
    return error


def rebuild_error(fault: Fault) -> BaseException:
    """Return an error that was raised in the worker and not here."""
    told = fault.envelope
    if fault.type in OURS:
        return OURS[fault.type](
            told.message,
            code=told.code,
            retry_after=told.retry_after,
            dependency=told.dependency,
        )
    if fault.type == TimeoutError.__name__:
        return TimeoutError(told.message)
    return RemoteError(told)
