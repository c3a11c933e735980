"""What AWS refuses, by its structure: the code, and the action that is missing."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import (
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
)

from orchestrator.infra.refusals import explained
from piecework.errors import PieceworkError
from tests.unit.orchestrator.infra.cloudformation import refused


@pytest.mark.parametrize(
    ("error", "code", "exit_code"),
    [
        (refused("DescribeStacks", "AccessDenied"), "aws.access.denied", 2),
        (refused("DescribeStacks", "ExpiredToken"), "aws.credentials.invalid", 2),
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
def test_a_refusal_has_a_code_and_a_next_step(
    error: Any, code: str, exit_code: int
) -> None:
    with pytest.raises(PieceworkError) as told, explained("shop-prod-data"):
        raise error

    assert (code, exit_code) == (told.value.code, told.value.exit_code)
    assert told.value.next_step
    assert "shop-prod-data" in told.value.message


def test_a_denial_names_the_action_that_is_missing() -> None:
    with pytest.raises(PieceworkError) as told, explained("queue", "sqs"):
        raise refused("DeleteQueue", "AccessDenied", "User is not authorized")

    assert "sqs:DeleteQueue on queue" in told.value.message
    assert "sqs:DeleteQueue" in told.value.next_step


def test_who_has_no_credentials_is_not_sent_to_the_embedded_aws() -> None:
    with pytest.raises(PieceworkError) as told, explained("the account", "sts"):
        raise NoCredentialsError

    assert "AWS_PROFILE" in told.value.next_step


def test_what_aws_said_is_quoted_for_people() -> None:
    with pytest.raises(PieceworkError, match="Parameter Size is odd"), explained("s"):
        raise refused("CreateChangeSet", "ValidationError", "Parameter Size is odd")
