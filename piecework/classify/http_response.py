"""Errors that carry an HTTP response: aiohttp, httpx, requests, urllib, model SDKs."""

from __future__ import annotations

from typing import Final

from piecework.classify.http_status import status_code
from piecework.classify.retry_after import retry_after
from piecework.classify.verdict import Verdict, type_names

_STATUSES: Final = range(100, 600)
_OK: Final = range(200, 300)

# What model providers say beside the status; it says more than the status does: an
# exhausted quota comes as 429, but no wait within a run lifts it.
_PROVIDER_CODES: Final = {
    "content_filter": "llm.policy.content_filtered",
    "content_policy_violation": "llm.policy.content_filtered",
    "context_length_exceeded": "llm.context.overflow",
    "insufficient_quota": "llm.policy.quota_exceeded",
}


def from_http_response(
    error: BaseException, layer: str, now: float | None
) -> Verdict | None:
    """Judge by status and provider code; a bad body under a good status is cut off."""
    response = getattr(error, "response", None)
    provider_code = None
    status = _status(getattr(response, "status_code", None))
    if status is not None:  # httpx, requests, model SDKs
        headers = getattr(response, "headers", None)
        provider_code = _text(getattr(error, "code", None))
    elif hasattr(error, "headers"):  # aiohttp, urllib
        status = _status(getattr(error, "status", None))
        headers = error.headers
    if status is None:
        return None
    return Verdict(
        _code(error, layer, status, provider_code),
        http_status=status,
        provider_code=provider_code,
        retry_after=retry_after(headers, now),
    )


def _code(
    error: BaseException, layer: str, status: int, provider_code: str | None
) -> str:
    if layer == "llm" and provider_code in _PROVIDER_CODES:
        return _PROVIDER_CODES[provider_code]
    if status in _OK and "ContentTypeError" in type_names(error):
        return f"{layer}.http.malformed_body"
    return status_code(layer, status)


def _status(value: object) -> int | None:
    return value if isinstance(value, int) and value in _STATUSES else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
