"""Errors shaped as those of OpenAI's SDK (1.x to 3.x): same bases, same names."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock


class OpenAIError(Exception):
    pass


class APIError(OpenAIError):
    """Raised as it is for an error event in a stream."""

    def __init__(self, body: Any) -> None:
        super().__init__("quota? filtered? never read")
        self.request = Mock()
        self.body = body
        told = body if isinstance(body, dict) else {}
        self.code = told.get("code")
        self.param = told.get("param")
        self.type = told.get("type")


class APIStatusError(APIError):
    def __init__(self, status: int, body: Any, headers: dict[str, str]) -> None:
        super().__init__(body)
        self.response = Mock(
            spec=["status_code", "headers"], status_code=status, headers=headers
        )
        self.status_code = status
        self.request_id = headers.get("x-request-id")


class APIResponseValidationError(APIError):
    def __init__(self) -> None:
        super().__init__(None)
        self.response = Mock(
            spec=["status_code", "headers"], status_code=200, headers={}
        )
        self.status_code = 200


class APIConnectionError(APIError):
    def __init__(self) -> None:
        super().__init__(None)


class APITimeoutError(APIConnectionError):
    pass


class LengthFinishReasonError(OpenAIError):
    def __init__(self) -> None:
        super().__init__("Could not parse response content")
        self.completion = Mock()


class ContentFilterFinishReasonError(OpenAIError):
    def __init__(self) -> None:
        super().__init__("Could not parse response content")
        self.completion = None


def answered(
    status: int,
    code: str | None,
    kind: str | None = None,
    headers: dict[str, str] | None = None,
) -> APIStatusError:
    """Return what the client makes of an answer: the body is its `error` member."""
    body = {"message": "no", "type": kind, "param": None, "code": code}
    return APIStatusError(status, body, headers or {})
