"""The envelope: the form in which every error is stored."""

from __future__ import annotations

import re
from typing import Final

from pydantic import BaseModel, ConfigDict, field_validator

from piecework.errors.codes import ErrorClass
from piecework.errors.redaction import shortened
from piecework.errors.sent import Sent

# Limits in characters: the rest of a long text is rarely read.
MESSAGE_LIMIT: Final = 512
CAUSE_LIMIT: Final = 256
PROVIDER_CODE_LIMIT: Final = 64
TRACEBACK_LIMIT: Final = 2_000
_PROVIDER_CODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:#-]{0,63}")


class ErrorEnvelope(BaseModel):
    """An error as data: the only form in which errors are stored and compared.

    Attributes:
        attempt: The attempt of the call in a call's error; else that of the chunk.
        cause: The types of the exception and of its causes, outermost first, each with
            its code if it has one.
        at: ISO 8601, UTC.
        correlation_id: `job/chunk`, as in every event of the log.
        retry_after: Seconds of the provider's Retry-After.
        dependency: The dependency that the chunk waits for: its breaker is open, or it
            could not be connected to.
        sent: Whether the request of a call was sent.
        exception: The type of the exception that was raised.
        location: Where the user's code raised it: `shop.py:41 in price`.
        traceback: Types, files, lines and functions, without any value.
    """

    model_config = ConfigDict(frozen=True)

    code: str
    error_class: ErrorClass
    message: str
    http_status: int | None = None
    provider_code: str | None = None
    attempt: int = 0
    stage: str = ""
    cause: str = ""
    at: str = ""
    correlation_id: str = ""
    retry_after: float | None = None
    dependency: str = ""
    sent: Sent = Sent.UNKNOWN
    exception: str = ""
    location: str = ""
    traceback: str = ""

    @field_validator("message")
    @classmethod
    def _clean_message(cls, message: str) -> str:
        return shortened(message, MESSAGE_LIMIT)

    @field_validator("cause", "exception", "location")
    @classmethod
    def _clean_names(cls, names: str) -> str:
        return shortened(names, CAUSE_LIMIT)

    @field_validator("traceback")
    @classmethod
    def _clean_traceback(cls, lines: str) -> str:
        return shortened(lines, TRACEBACK_LIMIT)

    @field_validator("provider_code")
    @classmethod
    def _clean_provider_code(cls, code: str | None) -> str | None:
        if code is None or not _PROVIDER_CODE.fullmatch(code):
            return None  # a code is one word; anything else may be data
        return shortened(code, PROVIDER_CODE_LIMIT)

    @property
    def raised(self) -> str:
        """What was raised, and where: `KeyError at shop.py:41 in price`."""
        return f"{self.exception} at {self.location}" if self.location else ""

    @property
    def retryable(self) -> bool:
        """Whether a retry of the same call can help."""
        return self.error_class is ErrorClass.TRANSIENT

    @property
    def is_not_connected(self) -> bool:
        """Whether nothing was sent, and a later request may reach the other side."""
        return self.sent is Sent.NO and self.retryable
