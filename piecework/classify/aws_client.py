"""botocore's other errors: AWS was not reached, or not even asked."""

from __future__ import annotations

from typing import Final

from piecework.classify.verdict import Verdict, type_names

# In this order: type names, the code for AWS, what it is in a call to a model.
_TYPES: Final = (
    (
        frozenset({"ConnectTimeoutError", "ReadTimeoutError"}),
        "aws.endpoint.timeout",
        "llm.connection.timeout",
    ),
    (
        frozenset({"IncompleteReadError", "ResponseParserError"}),
        "aws.service.unavailable",
        "llm.http.malformed_body",
    ),
    (
        frozenset({"ConnectionError", "HTTPClientError"}),
        "aws.endpoint.unreachable",
        "llm.connection.failed",
    ),
    (
        frozenset({"UnauthorizedSSOTokenError"}),
        "aws.credentials.invalid",
        "aws.credentials.invalid",
    ),
    (
        frozenset(
            {
                "CredentialRetrievalError",
                "NoAuthTokenError",
                "NoCredentialsError",
                "PartialCredentialsError",
                "SSOTokenLoadError",
                "TokenRetrievalError",
            }
        ),
        "aws.credentials.missing",
        "aws.credentials.missing",
    ),
    (frozenset({"NoRegionError"}), "config.region.missing", "config.region.missing"),
    (
        frozenset({"ParamValidationError"}),
        "aws.request.invalid",
        "llm.http.400_bad_request",
    ),
)
# Not under BotoCoreError, though botocore's own.
_STRAY: Final = frozenset({"ResponseParserError"})


def from_aws_client(
    error: BaseException, layer: str, _now: float | None
) -> Verdict | None:
    """Judge by the names of the error's type and its bases; botocore is not loaded."""
    names = type_names(error)
    if not names & (_STRAY | {"BotoCoreError"}):
        return None
    for known, in_aws, in_model in _TYPES:
        if names & known:
            return Verdict(in_model if layer == "llm" else in_aws)
    return Verdict("aws.request.rejected")
