"""botocore's ClientError: AWS answered with an error."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, Final

from piecework.errors.causes import type_names
from piecework.errors.classify_http import retry_after, status_code
from piecework.errors.verdict import Verdict

# ── botocore's client errors ──────────────────────────────────────────────────

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
        frozenset({"CredentialRetrievalError"}),
        "aws.credentials.unavailable",
        "aws.credentials.unavailable",
    ),
    (
        frozenset({"UnauthorizedSSOTokenError"}),
        "aws.credentials.invalid",
        "aws.credentials.invalid",
    ),
    (
        frozenset(
            {
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


# ── what the error codes of AWS mean ──────────────────────────────────────────


class Meaning(Enum):
    """The meaning that several AWS codes share."""

    CONDITION = auto()
    INVALID = auto()
    DENIED = auto()
    CREDENTIALS = auto()
    EXPIRED = auto()
    SKEWED = auto()
    DAMAGED = auto()
    KEY = auto()
    NOT_FOUND = auto()
    QUOTA = auto()
    TIMEOUT = auto()
    UNAVAILABLE = auto()
    THROTTLED = auto()
    CONFLICT = auto()
    NOT_READY = auto()
    MODEL = auto()


_AWS_CODES: Final = {
    Meaning.THROTTLED: """
        BandwidthLimitExceeded EC2ThrottledException KMS.ThrottlingException
        KMSThrottlingException KmsThrottled LimitExceededException OverLimit
        ProvisionedThroughputExceeded ProvisionedThroughputExceededException
        RequestLimitExceeded RequestThrottled RequestThrottledException SlowDown
        ThrottledException Throttling ThrottlingError ThrottlingException
        TooManyRequestsException
    """,
    Meaning.UNAVAILABLE: """
        InternalError InternalFailure InternalServerError InternalServerException
        ServiceException ServiceUnavailable ServiceUnavailableException
    """,
    Meaning.TIMEOUT: """
        IDPCommunicationError ModelTimeoutException RequestTimeout
        RequestTimeoutException
    """,
    Meaning.DENIED: """
        AccessDenied AccessDeniedException AllAccessDisabled AuthorizationError
        KMS.AccessDeniedException KMSAccessDeniedException KmsAccessDenied
        UnauthorizedOperation
    """,
    Meaning.CREDENTIALS: """
        AuthFailure IncompleteSignature InvalidAccessKeyId InvalidClientTokenId
        InvalidIdentityToken InvalidSignatureException InvalidToken
        MissingAuthenticationToken
        MissingAuthenticationTokenException SignatureDoesNotMatch
        UnrecognizedClientException
    """,
    # A role renews its credentials: the next request may have them.
    Meaning.EXPIRED: "ExpiredToken ExpiredTokenException TokenRefreshRequired",
    Meaning.SKEWED: "RequestExpired RequestInTheFuture RequestTimeTooSkewed",
    # The bytes changed on their way: the same request may arrive whole.
    Meaning.DAMAGED: """
        BadDigest IncompleteBody XAmzContentChecksumMismatch
        XAmzContentSHA256Mismatch
    """,
    # DynamoDB and S3 pass the codes of KMS on; SQS has names of its own.
    Meaning.KEY: """
        DisabledException InvalidKeyUsageException KMS.DisabledException
        KMS.InvalidKeyUsageException KMS.KMSInvalidStateException
        KMS.KeyUnavailableException KMS.NotFoundException KMS.OptInRequired
        KMSDisabledException KMSInvalidStateException KMSNotFoundException
        KMSOptInRequired KeyUnavailableException KmsDisabled KmsInvalidKeyUsage
        KmsInvalidState KmsNotFound KmsOptInRequired
    """,
    Meaning.NOT_FOUND: """
        AWS.SimpleQueueService.NonExistentQueue NoSuchBucket NoSuchKey NotFound
        QueueDoesNotExist ResourceNotFoundException TableNotFoundException
    """,
    Meaning.INVALID: """
        InvalidArgument InvalidParameterException InvalidParameterValue
        InvalidRequest MissingParameter SerializationException ValidationError
        ValidationException
    """,
    Meaning.CONDITION: """
        ConditionalCheckFailed ConditionalCheckFailedException PreconditionFailed
    """,
    Meaning.CONFLICT: """
        ConditionalRequestConflict OperationAborted TransactionConflict
        TransactionConflictException TransactionInProgressException
    """,
    # A quota is not a rate limit. It lasts longer than any backoff, and another model
    # or region may have capacity. So it is a policy error, as the specification says.
    Meaning.QUOTA: "ServiceQuotaExceededException",
    Meaning.NOT_READY: "ModelNotReadyException",
    Meaning.MODEL: "ModelErrorException ModelStreamErrorException",
}

MEANINGS: Final = MappingProxyType(
    {code: meaning for meaning, codes in _AWS_CODES.items() for code in codes.split()}
)

# SQS, DynamoDB, S3 and other services that are not models.
AWS: Final = MappingProxyType(
    {
        Meaning.CONDITION: "aws.condition.refused",
        Meaning.INVALID: "aws.request.invalid",
        Meaning.DENIED: "aws.access.denied",
        Meaning.CREDENTIALS: "aws.credentials.invalid",
        Meaning.EXPIRED: "aws.credentials.expired",
        Meaning.SKEWED: "aws.clock.skewed",
        Meaning.DAMAGED: "aws.request.damaged",
        Meaning.KEY: "aws.key.unusable",
        Meaning.NOT_FOUND: "aws.resource.not_found",
        Meaning.QUOTA: "aws.quota.exceeded",
        Meaning.TIMEOUT: "aws.endpoint.timeout",
        Meaning.UNAVAILABLE: "aws.service.unavailable",
        Meaning.THROTTLED: "aws.service.throttled",
        Meaning.CONFLICT: "aws.transaction.conflict",
        Meaning.NOT_READY: "aws.service.unavailable",
        Meaning.MODEL: "aws.service.unavailable",
    }
)

# Bedrock. The code decides and not the status, because the code is more exact.
LLM: Final = MappingProxyType(
    {
        Meaning.CONDITION: "llm.http.409_conflict",
        Meaning.INVALID: "llm.http.400_bad_request",
        Meaning.DENIED: "llm.http.403_forbidden",
        Meaning.CREDENTIALS: "llm.http.401_unauthenticated",
        Meaning.EXPIRED: "aws.credentials.expired",
        Meaning.SKEWED: "aws.clock.skewed",
        Meaning.DAMAGED: "aws.request.damaged",
        Meaning.KEY: "llm.http.403_forbidden",
        Meaning.NOT_FOUND: "llm.http.404_not_found",
        Meaning.QUOTA: "llm.policy.quota_exceeded",
        Meaning.TIMEOUT: "llm.http.408_timeout",
        Meaning.UNAVAILABLE: "llm.http.503_unavailable",
        Meaning.THROTTLED: "llm.http.429_rate_limited",
        Meaning.CONFLICT: "llm.http.409_conflict",
        Meaning.NOT_READY: "llm.model.not_ready",
        Meaning.MODEL: "llm.model.failed",
    }
)


# Calls of Bedrock are model calls even if the dependency does not declare `llm`.
_MODEL_OPERATIONS: Final = frozenset(
    {
        "Converse",
        "ConverseStream",
        "InvokeModel",
        "InvokeModelWithBidirectionalStream",
        "InvokeModelWithResponseStream",
    }
)
_STATUSES: Final = {
    401: Meaning.CREDENTIALS,
    403: Meaning.DENIED,
    404: Meaning.NOT_FOUND,
    408: Meaning.TIMEOUT,
    412: Meaning.CONDITION,
    429: Meaning.THROTTLED,
}
_SERVER_ERROR: Final = 500
_FAILURES: Final = range(400, 600)


def from_aws_response(
    error: BaseException, layer: str, now: float | None
) -> Verdict | None:
    """Classify by the service's own code, then by the status."""
    response = getattr(error, "response", None)
    if not isinstance(response, Mapping) or "Error" not in response:
        return None
    metadata = _mapping(response.get("ResponseMetadata"))
    provider_code = str(_mapping(response["Error"]).get("Code") or "")
    status = _status(metadata.get("HTTPStatusCode"))
    is_model = (
        layer == "llm" or getattr(error, "operation_name", None) in _MODEL_OPERATIONS
    )
    code_of = _model_code if is_model else _aws_code
    headers = metadata.get("HTTPHeaders")
    skew = _skew_s(headers) if MEANINGS.get(provider_code) in _BY_CLOCK else 0.0
    return Verdict(
        AWS[Meaning.SKEWED] if skew else code_of(response, provider_code, status),
        http_status=status,
        provider_code=provider_code or None,
        retry_after=retry_after(headers, now),
        message=_skew_text(skew) if skew else None,
    )


# ── a clock that differs ──────────────────────────────────────────────────────

#: A signature with a wrong time is refused with one of these. Only S3 says that it is
#: the time: for others the date of the answer tells it.
_BY_CLOCK: Final = frozenset({Meaning.CREDENTIALS, Meaning.SKEWED})
#: Seconds by which a signature may differ: "Signature Version 4, request expiration".
#: The answer itself takes some of them.
_MOST_SKEW_S: Final = 290.0


def _skew_s(headers: object, clock: Callable[[], float] = time.time) -> float:
    """Return the seconds by which this machine is ahead of AWS; 0 if few, or unknown.

    The SDK signs with the machine's own clock, so that clock is compared.
    """
    found = {str(k).lower(): v for k, v in _mapping(headers).items()}.get("date")
    try:
        date = parsedate_to_datetime(str(found))
    except ValueError:
        return 0.0
    skew = 0.0 if date.tzinfo is None else clock() - date.timestamp()
    return skew if abs(skew) > _MOST_SKEW_S else 0.0


def _skew_text(seconds: float) -> str:
    where = "ahead of" if seconds > 0 else "behind"
    took = timedelta(seconds=round(abs(seconds)))
    return f"The clock of this machine is {took} (h:mm:ss) {where} that of AWS."


def _model_code(
    response: Mapping[str, Any], provider_code: str, status: int | None
) -> str:
    # an event stream writes the names of its exceptions in lower camel case
    meaning = MEANINGS.get(provider_code[:1].upper() + provider_code[1:])
    original = _status(
        response.get("originalStatusCode")
        or _mapping(response["Error"]).get("OriginalStatusCode")
    )
    if meaning is Meaning.MODEL and original is not None and original in _FAILURES:
        return status_code("llm", original)
    if meaning is Meaning.UNAVAILABLE and status is not None:
        return status_code("llm", max(status, _SERVER_ERROR))
    if meaning is not None:
        return LLM[meaning]
    return status_code("llm", status or 0)


def _aws_code(
    response: Mapping[str, Any], provider_code: str, status: int | None
) -> str:
    meaning = MEANINGS.get(provider_code)
    if provider_code == "TransactionCanceledException":
        meaning = _cancellation(response)
    if meaning is None and status is not None:
        meaning = (
            Meaning.UNAVAILABLE if status >= _SERVER_ERROR else _STATUSES.get(status)
        )
    return "aws.request.rejected" if meaning is None else AWS[meaning]


def _cancellation(response: Mapping[str, Any]) -> Meaning | None:
    """Return why a transaction was cancelled; a condition wins over a conflict."""
    reasons = response.get("CancellationReasons") or ()
    meanings = {MEANINGS.get(str(_mapping(reason).get("Code"))) for reason in reasons}
    return next((each for each in Meaning if each in meanings), None)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _status(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None
