"""The HTTP answer that an error carries, wherever its library keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from piecework.classify.retry_after import retry_after

_STATUSES: Final = range(100, 600)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A status, and the headers beside it."""

    status: int
    headers: object

    def retry_after(self, now: float | None) -> float | None:
        """Return the seconds that the other side asked us to wait."""
        return retry_after(self.headers, now)


def http_answer(error: BaseException) -> HttpAnswer | None:
    """Return the answer, if there was one."""
    response = getattr(error, "response", None)
    status = _status(response)  # httpx, requests, Anthropic, OpenAI
    if status is not None:
        return HttpAnswer(status, getattr(response, "headers", None))
    status = _status(error)  # aiohttp, urllib, Cohere, Mistral
    if status is not None:
        return HttpAnswer(status, getattr(error, "headers", None))
    return None


def _status(holder: object) -> int | None:
    """Read a status by its plain name, by its short one only beside headers."""
    value = getattr(holder, "status_code", None)
    if value is None and hasattr(holder, "headers"):
        value = getattr(holder, "status", None)
    is_status = isinstance(value, int) and value in _STATUSES
    return value if is_status else None
