"""Loopback and remote addresses."""

from __future__ import annotations

import pytest

from piecework.aws.endpoint import is_loopback
from piecework.errors import UsageError
from piecework_orchestrator.embedded.server import refuse_remote


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:4566",
        "http://127.8.9.1",
        "http://[::1]:4566",
        "http://localhost:1",
        "HTTP://LOCALHOST:1",
    ],
)
def test_an_address_of_this_machine_is_loopback(url: str) -> None:
    assert is_loopback(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://sqs.eu-west-1.amazonaws.com",
        "http://localhost.example.com:4566",
        "http://127.0.0.1.example.com",
        "http://127.0.0.1@example.com",
        "http://10.0.0.1:4566",
        "http://0.0.0.0:4566",
        "127.0.0.1:4566",
        "http://example.com/127.0.0.1",
        "http://[::1",
        "",
    ],
)
def test_any_other_address_is_not_loopback(url: str) -> None:
    assert not is_loopback(url)


def test_a_remote_endpoint_is_refused_with_its_variable() -> None:
    environ = {"AWS_ENDPOINT_URL_SQS": "https://sqs.eu-west-1.amazonaws.com"}
    with pytest.raises(UsageError, match="AWS_ENDPOINT_URL_SQS") as refused:
        refuse_remote(environ)
    assert refused.value.code == "embedded.endpoint.not_loopback"
    assert "AWS_ENDPOINT_URL_SQS" in refused.value.next_step
