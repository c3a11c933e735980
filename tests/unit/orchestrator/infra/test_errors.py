"""Error responses of AWS become Piecework errors with code and next step."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import (
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
)

from piecework.errors import PieceworkError
from piecework_orchestrator.infra.errors import translated_aws_errors
from tests.unit.orchestrator.infra.cloudformation import refused


@pytest.mark.parametrize(
    ("error", "code", "exit_code"),
    [
        (refused("DescribeStacks", "AccessDenied"), "aws.access.denied", 2),
        (refused("DescribeStacks", "ExpiredToken"), "aws.credentials.expired", 6),
        (refused("CreateChangeSet", "ValidationError"), "infra.request.refused", 2),
        (refused("CreateChangeSet", "SomethingNew"), "infra.request.refused", 2),
        (refused("CreateChangeSet", "AlreadyExistsException"), "infra.stack.busy", 2),
        (
            refused("CreateChangeSet", "LimitExceededException"),
            "aws.quota.exceeded",
            2,
        ),
        (refused("DescribeStacks", "Throttling"), "aws.service.throttled", 6),
        (NoRegionError(), "config.region.missing", 2),
        (NoCredentialsError(), "aws.credentials.missing", 2),
        (EndpointConnectionError(endpoint_url="x"), "aws.endpoint.unreachable", 6),
    ],
)
def test_an_aws_error_has_a_code_and_a_next_step(
    error: Any, code: str, exit_code: int
) -> None:
    with pytest.raises(PieceworkError) as told, translated_aws_errors("shop-prod-data"):
        raise error

    assert (code, exit_code) == (told.value.code, told.value.exit_code)
    assert told.value.next_step
    assert "shop-prod-data" in told.value.message


def test_an_access_denied_error_names_the_missing_action() -> None:
    with pytest.raises(PieceworkError) as told, translated_aws_errors("queue", "sqs"):
        raise refused("DeleteQueue", "AccessDenied", "User is not authorized")

    assert "sqs:DeleteQueue on queue" in told.value.message
    assert "sqs:DeleteQueue" in told.value.next_step


def test_missing_credentials_do_not_suggest_the_embedded_aws() -> None:
    with (
        pytest.raises(PieceworkError) as told,
        translated_aws_errors("the account", "sts"),
    ):
        raise NoCredentialsError

    assert "AWS_PROFILE" in told.value.next_step


def test_the_message_of_aws_is_quoted() -> None:
    with (
        pytest.raises(PieceworkError, match="Parameter Size is odd"),
        translated_aws_errors("s"),
    ):
        raise refused("CreateChangeSet", "ValidationError", "Parameter Size is odd")
