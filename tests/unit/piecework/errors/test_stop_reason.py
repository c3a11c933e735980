from __future__ import annotations

from types import SimpleNamespace as Answer
from typing import Any

import pytest

from piecework import (
    PermanentError,
    PolicyError,
    SemanticError,
    TransientError,
    raise_for_stop_reason,
)
from piecework.errors import StageError
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


def test_the_reasons_that_a_caller_handles_pass() -> None:
    for answer in ({"stopReason": "tool_use"}, chat("tool_calls")):
        raise_for_stop_reason(answer, handled={"tool_use", "tool_calls"})
    with pytest.raises(SemanticError):
        raise_for_stop_reason({"stopReason": "max_tokens"}, handled={"tool_use"})


@pytest.mark.parametrize(
    "answer",
    [
        Answer(stop_reason="end_turn"),
        Answer(stop_reason="stop_sequence"),
        {"stopReason": "end_turn"},
        chat("stop"),
        chat("eos"),
        responses(None, "output_text"),
    ],
)
def test_a_finished_answer_passes(answer: Any) -> None:
    raise_for_stop_reason(answer)


CUT_OFF = (TransientError, "llm.http.malformed_body")
NO_END = (SemanticError, "llm.output.invalid")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer(stop_reason=None), CUT_OFF),
        ({}, CUT_OFF),
        (None, CUT_OFF),
        ("<html>", CUT_OFF),
        (Answer(choices=None), CUT_OFF),
        (Answer(choices=[]), CUT_OFF),
        ({"output": {"message": {"content": [{"text": "a"}]}}}, CUT_OFF),
        ({"stopReason": "tool_use"}, NO_END),
        (Answer(stop_reason="pause_turn"), NO_END),
        (Answer(stop_reason="of tomorrow"), NO_END),
        (chat("tool_calls"), NO_END),
        (Answer(status="in_progress"), NO_END),
        (Answer(status="failed"), (TransientError, "llm.model.failed")),
        (chat("error"), (TransientError, "llm.model.failed")),
        (chat("abort"), (TransientError, "llm.model.failed")),
        ({"error": {"code": 502}}, (TransientError, "llm.http.502_bad_gateway")),
        ({"error": {"code": 400}}, (PermanentError, "llm.http.400_bad_request")),
        ({"error": "busy"}, (TransientError, "llm.model.failed")),
        (
            Answer(choices=[Answer(error={"type": "overloaded_error"})]),
            (TransientError, "llm.http.529_overloaded"),
        ),
    ],
)
def test_all_but_a_finished_answer_is_an_error(
    answer: Any, expected: tuple[type[Exception], str]
) -> None:
    with pytest.raises(StageError) as caught:
        raise_for_stop_reason(answer)

    assert (type(caught.value), caught.value.code) == expected
