"""How the error of a call crosses to the child: as itself, where the child has it."""

from __future__ import annotations

from collections.abc import Mapping

from piecework.classify import classify, mark
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


class OwnAttemptError(AttemptError, PieceworkError):
    """An error of ours that a function raised: the other side has answered."""


def fault_of(error: Exception, layer: str) -> Fault:
    """Return an error of a call in the form in which it crosses."""
    attempt = error.attempt if isinstance(error, AttemptError) else None
    return Fault(type(error).__name__, classify(error, layer=layer), attempt)


def error_of(
    fault: Fault, raised: Mapping[int, BaseException], layer: str
) -> BaseException:
    """Return what `ctx.call` raises: what it would raise in the worker itself."""
    if fault.attempt is not None and fault.attempt in raised:
        return raised[fault.attempt]
    told = fault.envelope
    if fault.type in OURS:
        return OURS[fault.type](
            told.message, code=told.code, retry_after=told.retry_after
        )
    if fault.type == TimeoutError.__name__:
        error = TimeoutError(told.message)
        mark(error, layer)
        return error
    return RemoteError(told)
