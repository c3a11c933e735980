from __future__ import annotations

from typing import Any

import pytest

from piecework.errors.classify import classify
from piecework.errors.classify_llm import INSTEAD_OF_STATUS, OVER_STATUS
from piecework.errors.codes import REGISTRY
from tests.unit.piecework.errors import anthropic_shapes as anthropic
from tests.unit.piecework.errors import openai_shapes as openai

ANTHROPIC = [
    (529, "overloaded_error", "llm.http.529_overloaded", "transient"),
    (429, "rate_limit_error", "llm.http.429_rate_limited", "transient"),
    (400, "invalid_request_error", "llm.http.400_bad_request", "permanent"),
    (401, "authentication_error", "llm.http.401_unauthenticated", "permanent"),
    (402, "billing_error", "llm.policy.quota_exceeded", "policy"),
    (403, "permission_error", "llm.http.403_forbidden", "permanent"),
    (404, "not_found_error", "llm.http.404_not_found", "permanent"),
    (409, "conflict_error", "llm.http.409_conflict", "transient"),
    (413, "request_too_large", "llm.http.413_too_large", "permanent"),
    (500, "api_error", "llm.http.500_server_error", "transient"),
    (504, "timeout_error", "llm.http.504_gateway_timeout", "transient"),
]


@pytest.mark.parametrize("layer", ["llm", "tool"])
@pytest.mark.parametrize("shaped", [anthropic.answered, anthropic.answered_before_2])
@pytest.mark.parametrize(("status", "kind", "code", "error_class"), ANTHROPIC)
def test_anthropics_answer_is_a_models_whether_the_caller_says_so_or_not(
    status: int, kind: str, code: str, error_class: str, shaped: Any, layer: str
) -> None:
    envelope = classify(shaped(status, kind), layer=layer)

    assert (code, error_class) == (envelope.code, envelope.error_class)
    assert (status, kind) == (envelope.http_status, envelope.provider_code)


@pytest.mark.parametrize(("_status", "kind", "code", "error_class"), ANTHROPIC)
def test_a_stream_that_fails_after_its_200_is_judged_by_its_error_type(
    _status: int, kind: str, code: str, error_class: str
) -> None:
    envelope = classify(anthropic.answered(200, kind), layer="llm")

    assert (code, error_class) == (envelope.code, envelope.error_class)
    assert envelope.http_status == 200


@pytest.mark.parametrize(
    ("error_code", "code"),
    [
        ("enforced_spend_limit_reached", "llm.policy.quota_exceeded"),
        ("contract_spend_limit_reached", "llm.policy.quota_exceeded"),
        ("ramp_limit_exceeded", "llm.http.429_rate_limited"),
        ("invented_later", "llm.http.429_rate_limited"),
    ],
)
def test_anthropics_error_code_says_more_than_its_type(
    error_code: str, code: str
) -> None:
    error = anthropic.answered(429, "rate_limit_error", error_code)

    assert code == classify(error).code


OPENAI = [
    (429, "rate_limit_exceeded", "tokens", "llm.http.429_rate_limited", "transient"),
    (429, "insufficient_quota", None, "llm.policy.quota_exceeded", "policy"),
    (429, None, "insufficient_quota", "llm.policy.quota_exceeded", "policy"),
    (400, "context_length_exceeded", None, "llm.context.overflow", "permanent"),
    (400, "content_filter", None, "llm.policy.content_filtered", "policy"),
    (400, "content_policy_violation", None, "llm.policy.content_filtered", "policy"),
    (
        400,
        "unknown_parameter",
        "invalid_request_error",
        "llm.http.400_bad_request",
        "permanent",
    ),
    (401, "invalid_api_key", None, "llm.http.401_unauthenticated", "permanent"),
    (404, "model_not_found", None, "llm.http.404_not_found", "permanent"),
    (500, None, "server_error", "llm.http.500_server_error", "transient"),
    (503, None, None, "llm.http.503_unavailable", "transient"),
]


@pytest.mark.parametrize("layer", ["llm", "tool"])
@pytest.mark.parametrize(("status", "said", "kind", "code", "error_class"), OPENAI)
def test_openais_answer_is_judged_by_code_type_and_status(
    status: int,
    said: str | None,
    kind: str | None,
    code: str,
    error_class: str,
    layer: str,
) -> None:
    envelope = classify(openai.answered(status, said, kind), layer=layer)

    assert (code, error_class) == (envelope.code, envelope.error_class)
    assert status == envelope.http_status


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (
            {"code": "rate_limit_exceeded", "type": "tokens"},
            "llm.http.429_rate_limited",
        ),
        ({"code": None, "type": "server_error"}, "llm.http.500_server_error"),
        ({"code": "context_length_exceeded"}, "llm.context.overflow"),
        ({"code": "invented_later"}, "llm.model.failed"),
        ("cut off", "llm.model.failed"),
        (None, "llm.model.failed"),
    ],
)
def test_an_error_event_in_openais_stream_has_no_status(body: Any, code: str) -> None:
    envelope = classify(openai.APIError(body))

    assert (code, None) == (envelope.code, envelope.http_status)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (anthropic.APITimeoutError(), "llm.connection.timeout"),
        (openai.APITimeoutError(), "llm.connection.timeout"),
        (anthropic.APIConnectionError(), "llm.connection.failed"),
        (openai.APIConnectionError(), "llm.connection.failed"),
        (anthropic.APIResponseValidationError(), "llm.http.malformed_body"),
        (openai.APIResponseValidationError(), "llm.http.malformed_body"),
        (openai.ContentFilterFinishReasonError(), "llm.policy.content_filtered"),
        (openai.LengthFinishReasonError(), "llm.output.truncated"),
        (openai.OpenAIError("no key"), "runtime.stage.unhandled"),
        (anthropic.AnthropicError("no key"), "runtime.stage.unhandled"),
    ],
)
def test_an_sdks_error_without_an_answer_is_known_by_its_type(
    error: Exception, code: str
) -> None:
    assert code == classify(error).code


@pytest.mark.parametrize("shaped", [anthropic.answered, openai.answered])
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1.0),
    ],
)
def test_an_sdk_passes_on_how_long_to_wait(
    shaped: Any, headers: dict[str, str], expected: float
) -> None:
    assert expected == classify(shaped(429, "x", headers=headers)).retry_after


class ApiError(Exception):
    """As Cohere has it; Mistral's has these members, too."""

    def __init__(self, status: int) -> None:
        super().__init__("no")
        self.headers = {"retry-after": "4"}
        self.status_code = status
        self.body = {"message": "no"}


def test_a_status_on_the_error_itself_is_one_too() -> None:
    envelope = classify(ApiError(429), layer="llm")

    assert ("llm.http.429_rate_limited", 429, 4.0) == (
        envelope.code,
        envelope.http_status,
        envelope.retry_after,
    )


def test_every_code_of_a_provider_has_one_row() -> None:
    words = {**OVER_STATUS, **INSTEAD_OF_STATUS}

    assert set() == set(words.values()) - set(REGISTRY)
    assert set() == set(OVER_STATUS) & set(INSTEAD_OF_STATUS)
