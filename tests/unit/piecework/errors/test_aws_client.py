from __future__ import annotations

import pytest
from botocore import exceptions as botocore
from botocore.parsers import ResponseParserError

from piecework.errors.classify import classify

URL = {"endpoint_url": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("error", "in_aws", "in_model"),
    [
        (
            botocore.EndpointConnectionError(**URL),
            "aws.endpoint.unreachable",
            "llm.connection.failed",
        ),
        (
            botocore.ConnectionClosedError(**URL),
            "aws.endpoint.unreachable",
            "llm.connection.failed",
        ),
        (
            botocore.HTTPClientError(error="reset"),
            "aws.endpoint.unreachable",
            "llm.connection.failed",
        ),
        (
            botocore.SSLError(**URL, error=ValueError("bad")),
            "aws.endpoint.untrusted",
            "llm.connection.untrusted",
        ),
        (
            botocore.CredentialRetrievalError(provider="role", error_msg="down"),
            "aws.credentials.unavailable",
            "aws.credentials.unavailable",
        ),
        (
            botocore.ConnectTimeoutError(**URL),
            "aws.endpoint.timeout",
            "llm.connection.timeout",
        ),
        (
            botocore.ReadTimeoutError(**URL),
            "aws.endpoint.timeout",
            "llm.connection.timeout",
        ),
        (
            botocore.IncompleteReadError(actual_bytes=1, expected_bytes=2),
            "aws.service.unavailable",
            "llm.http.malformed_body",
        ),
        (
            ResponseParserError("not XML"),
            "aws.service.unavailable",
            "llm.http.malformed_body",
        ),
        (
            botocore.NoCredentialsError(),
            "aws.credentials.missing",
            "aws.credentials.missing",
        ),
        (
            botocore.UnauthorizedSSOTokenError(),
            "aws.credentials.invalid",
            "aws.credentials.invalid",
        ),
        (botocore.NoRegionError(), "config.region.missing", "config.region.missing"),
        (
            botocore.ParamValidationError(report="bad"),
            "aws.request.invalid",
            "llm.http.400_bad_request",
        ),
        (
            botocore.WaiterError(name="w", reason="r", last_response={}),
            "aws.request.rejected",
            "aws.request.rejected",
        ),
    ],
)
def test_botocores_own_errors_are_known_by_type(
    error: BaseException, in_aws: str, in_model: str
) -> None:
    assert (in_aws, in_model) == (
        classify(error).code,
        classify(error, layer="llm").code,
    )
