"""Errors shaped as those of Anthropic's SDK (1.x and 2.x): same bases, same names."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock


class AnthropicError(Exception):
    pass


class APIError(AnthropicError):
    def __init__(self, message: str, *, body: object) -> None:
        super().__init__(message)
        self.request = Mock()
        self.message = message
        self.body = body


class APIStatusError(APIError):
    def __init__(self, status: int, body: Any, headers: dict[str, str]) -> None:
        super().__init__("overloaded? too long? never read", body=body)
        self.response = Mock(
            spec=["status_code", "headers"], status_code=status, headers=headers
        )
        self.status_code = status
        self.request_id = headers.get("request-id")
        inner = body.get("error") if isinstance(body, dict) else None
        self.type = inner.get("type") if inner else None
        details = inner.get("details") if inner else None
        self.error_code = details.get("error_code") if details else None


class APIResponseValidationError(APIError):
    def __init__(self) -> None:
        super().__init__("Data returned by API invalid.", body=None)
        self.response = Mock(
            spec=["status_code", "headers"], status_code=200, headers={}
        )
        self.status_code = 200


class APIConnectionError(APIError):
    def __init__(self) -> None:
        super().__init__("Connection error.", body=None)


class APITimeoutError(APIConnectionError):
    pass


def answered(
    status: int,
    kind: str,
    error_code: str | None = None,
    headers: dict[str, str] | None = None,
) -> APIStatusError:
    """Return what the client makes of an answer, or of an error event in a stream."""
    error: dict[str, Any] = {"type": kind, "message": "no"}
    if error_code is not None:
        error["details"] = {"error_code": error_code}
    return APIStatusError(status, {"type": "error", "error": error}, headers or {})


def answered_before_2(status: int, kind: str) -> APIStatusError:
    """Return the same of an older client: the body is all that it keeps."""
    error = answered(status, kind)
    del error.type, error.error_code
    return error
