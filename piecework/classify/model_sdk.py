"""Errors of the SDKs of Anthropic and OpenAI, and errors of the same shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from piecework.classify.http_answer import http_answer
from piecework.classify.http_status import status_code
from piecework.classify.model_codes import INSTEAD_OF_STATUS, OVER_STATUS
from piecework.classify.verdict import Verdict, type_names

_SDKS: Final = frozenset({"AnthropicError", "OpenAIError"})
_FAILED: Final = range(400, 600)
_STREAMED: Final = frozenset({None, 200})  # the answer had begun

# The order matters: a timeout is also an error of the connection.
_TYPES: Final = (
    ("APITimeoutError", "llm.connection.timeout"),
    ("APIConnectionError", "llm.connection.failed"),
    ("APIResponseValidationError", "llm.http.malformed_body"),
    ("ContentFilterFinishReasonError", "llm.policy.content_filtered"),
    ("LengthFinishReasonError", "llm.output.truncated"),
)


def from_model_sdk(
    error: BaseException, layer: str, now: float | None
) -> Verdict | None:
    """Classify by type, then by the provider's words, then by the status.

    An error of such an SDK is a model error even if the dependency does not declare
    `llm`.
    """
    names = type_names(error)
    in_sdk = bool(names & _SDKS)
    if layer != "llm" and not in_sdk:
        return None
    answer = http_answer(error)
    status = None if answer is None else answer.status
    words = list(_provider_words(error))
    code = next((code for name, code in _TYPES if in_sdk and name in names), None)
    code = code or _code_of_words(words, status)
    if code is None and in_sdk and "APIError" in names and status in _STREAMED:
        # the stream ended with an event of an unknown type
        code = "llm.model.failed"
    if code is None:
        return None
    return Verdict(
        code,
        http_status=status,
        provider_code=_provider_code(words),
        retry_after=None if answer is None else answer.retry_after(now),
    )


def _code_of_words(words: list[str], status: int | None) -> str | None:
    for word in words:
        if word in OVER_STATUS:
            return OVER_STATUS[word]
    if status is not None and status in _FAILED:
        return status_code("llm", status)
    return next((INSTEAD_OF_STATUS[w] for w in words if w in INSTEAD_OF_STATUS), None)


def _provider_code(words: list[str]) -> str | None:
    """Return the word that decided, else the most specific one."""
    known = [word for word in words if word in OVER_STATUS]
    known += [word for word in words if word in INSTEAD_OF_STATUS]
    return next(iter([*known, *words]), None)


def _provider_words(error: BaseException) -> Iterator[str]:
    """Yield the provider's words for the error, the most specific first.

    Only instance attributes of the error are read: some libraries have properties of
    these names with another meaning.
    """
    body = getattr(error, "body", None)
    inner = body.get("error") if isinstance(body, Mapping) else None
    for name in ("error_code", "code", "type"):
        for holder in (vars(error), inner, body):
            word = holder.get(name) if isinstance(holder, Mapping) else None
            if isinstance(word, str):
                yield word
