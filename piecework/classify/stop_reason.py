"""Raise an error if a model stopped early: no SDK does that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from piecework.errors import PermanentError, PolicyError, SemanticError, StageError

_REASONS: Final[Mapping[str, tuple[type[StageError], str, str]]] = {
    reason: (kind, code, sentence)
    for reasons, kind, code, sentence in (
        ("refusal", PolicyError, "llm.policy.refusal", "The model refused"),
        (
            "content_filter content_filtered guardrail_intervened",
            PolicyError,
            "llm.policy.content_filtered",
            "A content filter stopped the model",
        ),
        (
            "model_context_window_exceeded",
            PermanentError,
            "llm.context.overflow",
            "The model's context is full",
        ),
        (
            "length max_output_tokens max_tokens",
            SemanticError,
            "llm.output.truncated",
            "The answer is cut off",
        ),
    )
    for reason in reasons.split()
}


def raise_for_stop_reason(answer: object) -> None:
    """Raise an error if a model stopped before its answer was complete.

    `answer` is the return value of Anthropic's, Bedrock's or OpenAI's client, an object
    or a mapping. An answer without a stop reason passes.

    Raises:
        PolicyError: `llm.policy.refusal` or `llm.policy.content_filtered`.
        PermanentError: `llm.context.overflow`.
        SemanticError: `llm.output.truncated`.
    """
    for reason in _reasons(answer):
        if reason in _REASONS:
            kind, code, sentence = _REASONS[reason]
            raise kind(f"{sentence}: {reason}.", code=code, provider_code=reason)


def _reasons(answer: object) -> Iterator[str]:
    yield _text(answer, "stop_reason")  # Anthropic
    yield _text(answer, "stopReason")  # Bedrock's Converse
    for choice in _list(answer, "choices"):  # OpenAI's chat
        yield _text(choice, "finish_reason")
        if _text(_part(choice, "message"), "refusal"):
            yield "refusal"
    yield _text(_part(answer, "incomplete_details"), "reason")  # OpenAI's responses
    for item in _list(answer, "output"):
        for content in _list(item, "content"):
            yield _text(content, "type")


def _part(whole: object, name: str) -> Any:
    if isinstance(whole, Mapping):
        return whole.get(name)
    return getattr(whole, name, None)


def _text(whole: object, name: str) -> str:
    found = _part(whole, name)
    return found if isinstance(found, str) else ""


def _list(whole: object, name: str) -> Sequence[object]:
    found = _part(whole, name)
    return found if isinstance(found, list | tuple) else ()
