"""An error of AWS keeps the message of AWS."""

from __future__ import annotations

import pytest
from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError

from piecework.aws.errors import reaching
from piecework.errors import StoreError


def refusal(**error: str) -> ClientError:
    return ClientError({"Error": error}, "Query")


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (
            refusal(Code="AccessDeniedException", Message="No entry"),
            "aws.access.denied",
            (
                "The table refused a request: An error occurred "
                "(AccessDeniedException) when calling the Query operation: No entry"
            ),
        ),
        (
            refusal(Message="odd"),
            "aws.request.rejected",
            (
                "The table refused a request: An error occurred (Unknown) "
                "when calling the Query operation: odd"
            ),
        ),
        (
            EndpointConnectionError(endpoint_url="http://127.0.0.1:1"),
            "aws.endpoint.unreachable",
            (
                "The table could not be reached: "
                'Could not connect to the endpoint URL: "http://127.0.0.1:1"'
            ),
        ),
    ],
)
def test_an_error_says_what_aws_said(
    error: BotoCoreError | ClientError, code: str, text: str
) -> None:
    with pytest.raises(StoreError) as raised, reaching("The table"):
        raise error
    assert (code, text) == (raised.value.code, raised.value.message)
