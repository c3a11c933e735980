"""botocore's client errors: the request did not reach AWS, or was not sent."""

from __future__ import annotations

from typing import Final

from piecework.classify.verdict import Verdict, type_names

# In each row: type names, the code in a call to AWS, the code in a call to a model.
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
# A type of botocore that is not a subclass of BotoCoreError.
_NOT_A_SUBCLASS: Final = frozenset({"ResponseParserError"})


def from_aws_client(
    error: BaseException, layer: str, _now: float | None
) -> Verdict | None:
    """Classify by the names of the error's type and its bases, without botocore."""
    names = type_names(error)
    if not names & (_NOT_A_SUBCLASS | {"BotoCoreError"}):
        return None
    for known, in_aws, in_model in _TYPES:
        if names & known:
            return Verdict(in_model if layer == "llm" else in_aws)
    return Verdict("aws.request.rejected")
