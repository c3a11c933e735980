"""Send a call's error to the child, and restore the original if the child has it."""

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
    """An error that a function raised in the child."""

    def __init__(self, envelope: ErrorEnvelope, attempt: int) -> None:
        """Store the number of the attempt."""
        super().__init__(envelope)
        self.attempt = attempt


class PieceworkAttemptError(AttemptError, PieceworkError):
    """A PieceworkError that a function raised: the dependency has answered."""


def fault_from_error(error: Exception, layer: str) -> Fault:
    """Return the message form of a call's error."""
    attempt = error.attempt if isinstance(error, AttemptError) else None
    envelope = noted(error) or classify(error, layer=layer)
    return Fault(type(error).__name__, envelope, attempt)


def error_from_fault(
    fault: Fault, raised: Mapping[int, BaseException]
) -> BaseException:
    """Return the error that `ctx.call` would raise in the worker itself."""
    if fault.attempt is not None and fault.attempt in raised:
        error = raised[fault.attempt]
    else:
        error = rebuild_error(fault)
    mark(error, fault.envelope)
    return error


def rebuild_error(fault: Fault) -> BaseException:
    """Return a copy of an error that was raised in the worker."""
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
