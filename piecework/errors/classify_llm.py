"""Errors of the SDKs of Anthropic and OpenAI, and errors of the same shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from piecework.errors.causes import type_names
from piecework.errors.classify_http import FAILED, http_answer, status_code
from piecework.errors.verdict import Verdict

_SDKS: Final = frozenset({"AnthropicError", "OpenAIError"})
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
    code = code or code_of_words(words, status)
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
        own_class=None if answer is None else answer.own_class(code),
    )


def code_of_words(words: list[str], status: int | None) -> str | None:
    """Return the code of a provider's words and its status; None: it is unknown."""
    for word in words:
        if word in OVER_STATUS:
            return OVER_STATUS[word]
    if status is not None and status in FAILED:
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


# ── map the error codes of model providers to our codes ───────────────────────
#
# The words come from Anthropic's `error.type` and `error.details.error_code`, and from
# OpenAI's `code` and `type`. Other providers with OpenAI's protocol use the same words.

_OVER_STATUS: Final = {
    # An exhausted quota has status 429 or 402, but no delay within a run ends it.
    "llm.policy.quota_exceeded": """
        billing_error billing_hard_limit_reached billing_not_active
        contract_spend_limit_reached enforced_spend_limit_reached insufficient_quota
        linked_organization_spend_limit_reached
    """,
    "llm.policy.content_filtered": """
        ResponsibleAIPolicyViolation bio_policy content_filter
        content_policy_violation image_content_policy_violation
        misalignment_policy_violation moderation_blocked
    """,
    "llm.context.overflow": "context_length_exceeded",
}
_STATUSES: Final = {
    400: "invalid_prompt invalid_request_error",
    401: "authentication_error invalid_api_key",
    403: "permission_error",
    404: "model_not_found not_found_error",
    409: "conflict_error",
    413: "request_too_large request_body_too_large_after_decoding",
    429: "ramp_limit_exceeded rate_limit_error rate_limit_exceeded requests tokens",
    500: "api_error server_error",
    504: "timeout_error",
    529: "overloaded_error",
}

# Words that are more specific than the status.
OVER_STATUS: Final = MappingProxyType(
    {word: code for code, words in _OVER_STATUS.items() for word in words.split()}
)

# Words that say the same as the status. They decide only if there is no error status,
# as in a stream that began with 200 and then failed.
INSTEAD_OF_STATUS: Final = MappingProxyType(
    {
        word: status_code("llm", status)
        for status, words in _STATUSES.items()
        for word in words.split()
    }
)
