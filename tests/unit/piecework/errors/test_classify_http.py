from __future__ import annotations

from email.utils import formatdate
from typing import Any
from unittest.mock import Mock

import aiohttp
import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from piecework.errors.classify import classify
from piecework.errors.codes import REGISTRY

NOW = 1_795_000_000.0


def answered(
    status: int, headers: dict[str, str] | None = None
) -> aiohttp.ClientResponseError:
    return aiohttp.ClientResponseError(
        Mock(real_url="http://127.0.0.1/x"),
        (),
        status=status,
        message="no",
        headers=CIMultiDictProxy(CIMultiDict(headers or {})),
    )


class HTTPStatusError(Exception):
    """As httpx has it."""

    def __init__(
        self, status: int, headers: dict[str, str] | None = None, code: Any = None
    ) -> None:
        super().__init__(f"status {status}")
        self.response = Mock(
            spec=["status_code", "headers"], status_code=status, headers=headers or {}
        )
        self.code = code


STATUSES = [
    (400, "400_bad_request", "permanent"),
    (401, "401_unauthenticated", "permanent"),
    (402, "4xx_rejected", "permanent"),
    (403, "403_forbidden", "permanent"),
    (404, "404_not_found", "permanent"),
    (408, "408_timeout", "transient"),
    (425, "425_too_early", "transient"),
    (413, "413_too_large", "permanent"),
    (418, "4xx_rejected", "permanent"),
    (422, "422_unprocessable", "permanent"),
    (429, "429_rate_limited", "transient"),
    (500, "500_server_error", "transient"),
    (501, "5xx_failed", "transient"),
    (502, "502_bad_gateway", "transient"),
    (503, "503_unavailable", "transient"),
    (504, "504_gateway_timeout", "transient"),
    (529, "529_overloaded", "transient"),
    (599, "5xx_failed", "transient"),
    (304, "unexpected_status", "permanent"),
]


@pytest.mark.parametrize("layer", ["llm", "tool"])
@pytest.mark.parametrize("kind", [answered, HTTPStatusError])
@pytest.mark.parametrize(("status", "detail", "error_class"), STATUSES)
def test_a_status_decides_code_and_class(
    kind: Any, layer: str, status: int, detail: str, error_class: str
) -> None:
    envelope = classify(kind(status), layer=layer)

    assert f"{layer}.http.{detail}" == envelope.code
    assert (error_class, status) == (envelope.error_class, envelope.http_status)


def test_the_sdks_of_models_retry_a_conflict() -> None:
    found = {layer: classify(answered(409), layer=layer) for layer in ("llm", "tool")}
    assert {"llm": True, "tool": False} == {k: v.retryable for k, v in found.items()}


@pytest.mark.parametrize("layer", ["llm", "tool"])
@pytest.mark.parametrize("name", ["x-should-retry", "Stripe-Should-Retry"])
@pytest.mark.parametrize(
    ("status", "said", "error_class"),
    [
        (400, "true", "transient"),
        (503, "false", "permanent"),
        (429, "false", "permanent"),
        (503, "perhaps", "transient"),
    ],
)
def test_a_provider_may_say_whether_to_retry(
    layer: str, name: str, status: int, said: str, error_class: str
) -> None:
    error = HTTPStatusError(status, headers={name: said})
    assert error_class == classify(error, layer=layer).error_class


def test_a_body_of_the_wrong_type_under_a_good_status_is_malformed() -> None:
    error = aiohttp.ContentTypeError(Mock(real_url="x"), (), status=200, headers=None)

    assert classify(error).code == "tool.http.malformed_body"


@pytest.mark.parametrize(
    ("status", "provider_code", "in_model", "in_tool"),
    [
        (400, "context_length_exceeded", "llm.context.overflow", "400_bad_request"),
        (400, "content_filter", "llm.policy.content_filtered", "400_bad_request"),
        (429, "insufficient_quota", "llm.policy.quota_exceeded", "429_rate_limited"),
        (429, "rate_limit_exceeded", "llm.http.429_rate_limited", "429_rate_limited"),
        (429, 17, "llm.http.429_rate_limited", "429_rate_limited"),
    ],
)
def test_a_model_providers_code_says_more_than_its_status(
    status: int, provider_code: Any, in_model: str, in_tool: str
) -> None:
    error = HTTPStatusError(status, code=provider_code)

    assert in_model == classify(error, layer="llm").code
    assert f"tool.http.{in_tool}" == classify(error, layer="tool").code


RETRY_AFTER = [
    ("7", 7.0),
    (" 7 ", 7.0),
    ("0", 0.0),
    ("1.5", 1.5),
    (formatdate(NOW + 90, usegmt=True), 90.0),
    (formatdate(NOW - 90, usegmt=True), 0.0),
    ("-1", None),
    ("nan", None),
    ("inf", None),
    ("soon", None),
    ("", None),
    ("9" * 40, None),
    ("Fri, 99 Foo 2026 00:00:00 GMT", None),
]


@pytest.mark.parametrize(("value", "expected"), RETRY_AFTER)
@pytest.mark.parametrize("name", ["retry-after", "Retry-After"])
def test_retry_after_is_read_as_seconds_or_as_a_date(
    name: str, value: str, expected: float | None
) -> None:
    headers = {"content-type": "text/plain", name: value}
    errors = (
        answered(429, headers),
        HTTPStatusError(503, headers),
    )

    assert [expected] * 2 == [classify(error, now=NOW).retry_after for error in errors]


def test_a_date_to_retry_after_needs_the_time() -> None:
    error = answered(429, {"Retry-After": formatdate(NOW, usegmt=True)})

    assert classify(error).retry_after is None


@pytest.mark.parametrize("headers", [None, 7, "retry-after: 3"])
def test_headers_of_no_known_form_are_passed_over(headers: Any) -> None:
    error = HTTPStatusError(429)
    error.response.headers = headers

    assert classify(error).retry_after is None


@pytest.mark.parametrize("status", [True, "429", None, 0, -1])
def test_a_status_that_is_none_does_not_decide(status: Any) -> None:
    error = HTTPStatusError(429)
    error.response.status_code = status

    assert classify(error).code == "runtime.stage.unhandled"


@pytest.mark.parametrize("layer", ["llm", "tool", "other"])
def test_every_status_has_a_code_of_the_registry(layer: str) -> None:
    codes = {
        classify(HTTPStatusError(status), layer=layer).code
        for status in range(100, 600)
    }

    assert set() == codes - REGISTRY.keys()
