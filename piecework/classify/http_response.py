"""Errors that carry an HTTP response: aiohttp, httpx, requests, urllib."""

from __future__ import annotations

from typing import Final

from piecework.classify.http_answer import http_answer
from piecework.classify.http_status import status_code
from piecework.classify.verdict import Verdict, type_names

_OK: Final = range(200, 300)


def from_http_response(
    error: BaseException, layer: str, now: float | None
) -> Verdict | None:
    """Classify by the status; a wrong content type with a 2xx is a malformed body."""
    answer = http_answer(error)
    if answer is None:
        return None
    code = status_code(layer, answer.status)
    if answer.status in _OK and "ContentTypeError" in type_names(error):
        code = f"{layer}.http.malformed_body"
    code_attribute = vars(error).get("code")
    return Verdict(
        code,
        http_status=answer.status,
        provider_code=code_attribute if isinstance(code_attribute, str) else None,
        retry_after=answer.retry_after(now),
    )
