"""Attach an envelope to an error, and read it back."""

from __future__ import annotations

from typing import Final

from piecework.classify.verdict import Verdict
from piecework.errors import ErrorEnvelope, RemoteError

_ENVELOPE: Final = "_piecework_envelope"


def mark(error: BaseException, envelope: ErrorEnvelope) -> None:
    """Attach the envelope to the error, so that it is not classified again."""
    # setattr would fail on an exception that is a frozen dataclass
    BaseException.__setattr__(error, _ENVELOPE, envelope)


def noted(error: BaseException) -> ErrorEnvelope | None:
    """Return the envelope that is attached to the error; None: there is none."""
    found = getattr(error, _ENVELOPE, None)
    if isinstance(found, ErrorEnvelope):
        return found
    return error.envelope if isinstance(error, RemoteError) else None


def from_noted(error: BaseException, _layer: str, _now: float | None) -> Verdict | None:
    """Use the attached envelope: only the code that made the call knows its layer."""
    envelope = noted(error)
    if envelope is None:
        return None
    return Verdict(
        envelope.code,
        http_status=envelope.http_status,
        provider_code=envelope.provider_code,
        retry_after=envelope.retry_after,
        own_class=envelope.error_class,
        message=envelope.message,
        dependency=envelope.dependency,
    )
