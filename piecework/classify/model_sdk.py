"""Errors of model SDKs: Anthropic's and OpenAI's, and those shaped like them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from piecework.classify.http_answer import http_answer
from piecework.classify.http_status import status_code
from piecework.classify.model_codes import INSTEAD_OF_STATUS, OUTWEIGHING
from piecework.classify.verdict import Verdict, type_names

_SDKS: Final = frozenset({"AnthropicError", "OpenAIError"})
_FAILED: Final = range(400, 600)
_STREAMED: Final = frozenset({None, 200})  # the answer had begun

# In this order: a timeout is also an error of the connection.
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
    """Judge by type, then by what the provider says, then by the status.

    The error of an SDK is a model's even where the caller forgot to say so.
    """
    names = type_names(error)
    in_sdk = bool(names & _SDKS)
    if layer != "llm" and not in_sdk:
        return None
    answer = http_answer(error)
    status = None if answer is None else answer.status
    said = list(_said(error))
    code = next((code for name, code in _TYPES if in_sdk and name in names), None)
    code = code or _spoken_code(said, status)
    if code is None and in_sdk and "APIError" in names and status in _STREAMED:
        # the stream broke off with an event that nobody has named yet
        code = "llm.model.failed"
    if code is None:
        return None
    return Verdict(
        code,
        http_status=status,
        provider_code=_telling(said),
        retry_after=None if answer is None else answer.retry_after(now),
    )


def _spoken_code(said: list[str], status: int | None) -> str | None:
    for word in said:
        if word in OUTWEIGHING:
            return OUTWEIGHING[word]
    if status is not None and status in _FAILED:
        return status_code("llm", status)
    return next((INSTEAD_OF_STATUS[w] for w in said if w in INSTEAD_OF_STATUS), None)


def _telling(said: list[str]) -> str | None:
    """Choose the word that decided, else the most exact one."""
    known = [word for word in said if word in OUTWEIGHING]
    known += [word for word in said if word in INSTEAD_OF_STATUS]
    return next(iter([*known, *said]), None)


def _said(error: BaseException) -> Iterator[str]:
    """Yield what the provider calls the error, the most exact word first.

    Of the error itself only what was put on it: some libraries have properties of
    these names that mean something else.
    """
    body = getattr(error, "body", None)
    inner = body.get("error") if isinstance(body, Mapping) else None
    for name in ("error_code", "code", "type"):
        for holder in (vars(error), inner, body):
            word = holder.get(name) if isinstance(holder, Mapping) else None
            if isinstance(word, str):
                yield word
