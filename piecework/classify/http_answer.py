"""Find the HTTP response of an error, wherever its library stores it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from piecework.classify.retry_after import retry_after

_STATUSES: Final = range(100, 600)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The status and the headers of a response."""

    status: int
    headers: object

    def retry_after(self, now: float | None) -> float | None:
        """Return the seconds of the Retry-After; None: there is none."""
        return retry_after(self.headers, now)


def http_answer(error: BaseException) -> HttpAnswer | None:
    """Return the response of an error; None: it has none."""
    response = getattr(error, "response", None)
    status = _status(response)  # httpx, requests, Anthropic, OpenAI
    if status is not None:
        return HttpAnswer(status, getattr(response, "headers", None))
    status = _status(error)  # aiohttp, urllib, Cohere, Mistral
    if status is not None:
        return HttpAnswer(status, getattr(error, "headers", None))
    return None


def _status(holder: object) -> int | None:
    """Read `status_code`, or `status` if the object also has headers."""
    value = getattr(holder, "status_code", None)
    if value is None and hasattr(holder, "headers"):
        value = getattr(holder, "status", None)
    is_status = isinstance(value, int) and value in _STATUSES
    return value if is_status else None
