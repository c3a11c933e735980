"""What the error codes of AWS mean, and our code for each meaning in each layer."""

from __future__ import annotations

from enum import Enum, auto
from types import MappingProxyType
from typing import Final


class Meaning(Enum):
    """The meaning that several AWS codes share."""

    CONDITION = auto()
    INVALID = auto()
    DENIED = auto()
    CREDENTIALS = auto()
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
        KmsThrottled LimitExceededException OverLimit
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
        ModelTimeoutException RequestTimeout RequestTimeoutException
    """,
    Meaning.DENIED: """
        AccessDenied AccessDeniedException AllAccessDisabled AuthorizationError
        KMS.AccessDeniedException KmsAccessDenied UnauthorizedOperation
    """,
    Meaning.CREDENTIALS: """
        AuthFailure ExpiredToken ExpiredTokenException IncompleteSignature
        InvalidAccessKeyId InvalidClientTokenId InvalidSignatureException
        InvalidToken MissingAuthenticationToken MissingAuthenticationTokenException
        RequestExpired SignatureDoesNotMatch UnrecognizedClientException
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
    # A quota is not a rate limit: it lasts longer than any backoff, and another model
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
