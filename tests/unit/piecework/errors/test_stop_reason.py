from __future__ import annotations

from types import SimpleNamespace as Answer
from typing import Any

import pytest

from piecework import PermanentError, PolicyError, SemanticError, raise_for_stop_reason
from piecework.errors.classify import classify


def chat(reason: str, refusal: str | None = None) -> Answer:
    message = Answer(content="text", refusal=refusal)
    return Answer(choices=[Answer(finish_reason=reason, message=message)])


def responses(reason: str | None, content: str) -> Answer:
    details = None if reason is None else Answer(reason=reason)
    output = [Answer(type="message", content=[Answer(type=content)])]
    return Answer(incomplete_details=details, output=output, status="completed")


STOPPED = [
    (Answer(stop_reason="refusal"), PolicyError, "llm.policy.refusal"),
    (
        Answer(stop_reason="model_context_window_exceeded"),
        PermanentError,
        "llm.context.overflow",
    ),
    (Answer(stop_reason="max_tokens"), SemanticError, "llm.output.truncated"),
    (
        {"stopReason": "guardrail_intervened"},
        PolicyError,
        "llm.policy.content_filtered",
    ),
    ({"stopReason": "content_filtered"}, PolicyError, "llm.policy.content_filtered"),
    (chat("content_filter"), PolicyError, "llm.policy.content_filtered"),
    (chat("length"), SemanticError, "llm.output.truncated"),
    (chat("stop", refusal="I will not."), PolicyError, "llm.policy.refusal"),
    (responses("max_output_tokens", "x"), SemanticError, "llm.output.truncated"),
    (responses("content_filter", "x"), PolicyError, "llm.policy.content_filtered"),
    (responses(None, "refusal"), PolicyError, "llm.policy.refusal"),
]


@pytest.mark.parametrize(("answer", "kind", "code"), STOPPED)
def test_a_model_that_stopped_for_no_answer_raises(
    answer: Any, kind: type[Exception], code: str
) -> None:
    with pytest.raises(kind) as caught:
        raise_for_stop_reason(answer)

    assert code == classify(caught.value).code


def test_the_providers_word_stays_in_the_envelope() -> None:
    with pytest.raises(PolicyError) as caught:
        raise_for_stop_reason({"stopReason": "guardrail_intervened"})

    assert classify(caught.value).provider_code == "guardrail_intervened"


@pytest.mark.parametrize(
    "answer",
    [
        Answer(stop_reason="end_turn"),
        Answer(stop_reason=None),
        {"stopReason": "tool_use"},
        {},
        None,
        "text",
        chat("stop"),
        chat("tool_calls"),
        responses(None, "output_text"),
        {"output": {"message": {"content": [{"text": "refusal"}]}}},
    ],
)
def test_an_answer_passes(answer: Any) -> None:
    raise_for_stop_reason(answer)
