"""What is known of an error already, noted on it by whoever made the call."""

from __future__ import annotations

from typing import Final

from piecework.classify.verdict import Verdict
from piecework.errors import ErrorEnvelope, RemoteError

_ENVELOPE: Final = "_piecework_envelope"


def mark(error: BaseException, envelope: ErrorEnvelope) -> None:
    """Note the envelope on the error, for whoever classifies it later."""
    # not by setattr: an exception that is a frozen dataclass refuses that
    BaseException.__setattr__(error, _ENVELOPE, envelope)


def noted(error: BaseException) -> ErrorEnvelope | None:
    """Return the envelope that the error brings with it."""
    found = getattr(error, _ENVELOPE, None)
    if isinstance(found, ErrorEnvelope):
        return found
    return error.envelope if isinstance(error, RemoteError) else None


def from_noted(error: BaseException, _layer: str, _now: float | None) -> Verdict | None:
    """Take what was noted: whose call it was is known only where it was made."""
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
