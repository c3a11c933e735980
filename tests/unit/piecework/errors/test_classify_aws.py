from __future__ import annotations

import time
from email.utils import formatdate
from typing import Any

import pytest
from botocore import exceptions as botocore

from piecework.errors.classify import classify
from piecework.errors.codes import REGISTRY


def aws(
    code: str,
    status: int | None = 400,
    operation: str = "UpdateItem",
    headers: dict[str, str] | None = None,
    **more: Any,
) -> botocore.ClientError:
    metadata = {"HTTPStatusCode": status, "HTTPHeaders": headers or {}}
    response: Any = {
        "Error": {"Code": code, "Message": "throttled? denied? 503? never read"},
        "ResponseMetadata": {k: v for k, v in metadata.items() if v is not None},
        **more,
    }
    return botocore.ClientError(response, operation)


BEDROCK = [
    ("ThrottlingException", 429, "llm.http.429_rate_limited", "transient"),
    ("throttlingException", None, "llm.http.429_rate_limited", "transient"),
    ("ModelTimeoutException", 408, "llm.http.408_timeout", "transient"),
    ("ServiceUnavailableException", 503, "llm.http.503_unavailable", "transient"),
    ("InternalServerException", 500, "llm.http.500_server_error", "transient"),
    ("internalServerException", None, "llm.http.503_unavailable", "transient"),
    ("ModelNotReadyException", 429, "llm.model.not_ready", "transient"),
    ("ModelErrorException", 424, "llm.model.failed", "transient"),
    ("ModelStreamErrorException", 424, "llm.model.failed", "transient"),
    ("ValidationException", 400, "llm.http.400_bad_request", "permanent"),
    ("AccessDeniedException", 403, "llm.http.403_forbidden", "permanent"),
    ("ResourceNotFoundException", 404, "llm.http.404_not_found", "permanent"),
    ("ConflictException", 400, "llm.http.400_bad_request", "permanent"),
    ("ExpiredTokenException", 403, "aws.credentials.expired", "transient"),
    ("RequestTimeTooSkewed", 403, "aws.clock.skewed", "transient"),
    ("ServiceQuotaExceededException", 400, "llm.policy.quota_exceeded", "policy"),
    ("InventedLater", 418, "llm.http.4xx_rejected", "permanent"),
    ("InventedLater", 502, "llm.http.502_bad_gateway", "transient"),
    ("InventedLater", None, "llm.http.unexpected_status", "permanent"),
]


@pytest.mark.parametrize(("provider_code", "status", "code", "error_class"), BEDROCK)
def test_bedrocks_answer_is_a_models_whether_the_caller_says_so_or_not(
    provider_code: str, status: int | None, code: str, error_class: str
) -> None:
    for layer, operation in (("llm", "Anything"), ("tool", "Converse")):
        envelope = classify(aws(provider_code, status, operation), layer=layer)

        assert (code, error_class) == (envelope.code, envelope.error_class)
        assert (provider_code, status) == (envelope.provider_code, envelope.http_status)


@pytest.mark.parametrize(
    ("original", "code"),
    [
        (400, "llm.http.400_bad_request"),
        (429, "llm.http.429_rate_limited"),
        (500, "llm.http.500_server_error"),
        (200, "llm.model.failed"),
    ],
)
def test_a_models_own_status_says_more_than_that_it_failed(
    original: int, code: str
) -> None:
    error = aws("ModelErrorException", 424, "Converse", originalStatusCode=original)

    assert code == classify(error).code


INFRASTRUCTURE = [
    ("ThrottlingException", 400, "aws.service.throttled"),
    ("ProvisionedThroughputExceededException", 400, "aws.service.throttled"),
    ("RequestLimitExceeded", 400, "aws.service.throttled"),
    ("OverLimit", 403, "aws.service.throttled"),
    ("SlowDown", 503, "aws.service.throttled"),
    ("KMS.ThrottlingException", 400, "aws.service.throttled"),
    ("TransactionConflictException", 400, "aws.transaction.conflict"),
    ("ConditionalCheckFailedException", 400, "aws.condition.refused"),
    ("InternalServerError", 500, "aws.service.unavailable"),
    ("RequestTimeout", 400, "aws.endpoint.timeout"),
    ("AccessDenied", 403, "aws.access.denied"),
    ("UnrecognizedClientException", 400, "aws.credentials.invalid"),
    ("ExpiredToken", 400, "aws.credentials.expired"),
    ("RequestTimeTooSkewed", 403, "aws.clock.skewed"),
    ("BadDigest", 400, "aws.request.damaged"),
    ("IncompleteBody", 400, "aws.request.damaged"),
    # What STS answers to a role of a web identity.
    ("ExpiredTokenException", 400, "aws.credentials.expired"),
    ("InvalidIdentityToken", 400, "aws.credentials.invalid"),
    ("IDPCommunicationError", 400, "aws.endpoint.timeout"),
    ("XAmzContentSHA256Mismatch", 400, "aws.request.damaged"),
    ("ResourceNotFoundException", 400, "aws.resource.not_found"),
    ("AWS.SimpleQueueService.NonExistentQueue", 400, "aws.resource.not_found"),
    ("NoSuchKey", 404, "aws.resource.not_found"),
    ("ValidationException", 400, "aws.request.invalid"),
    ("ServiceQuotaExceededException", 402, "aws.quota.exceeded"),
    # HEAD has no body, so S3's code is but the status
    ("404", 404, "aws.resource.not_found"),
    ("403", 403, "aws.access.denied"),
    ("InventedLater", 401, "aws.credentials.invalid"),
    ("InventedLater", 412, "aws.condition.refused"),
    ("InventedLater", 429, "aws.service.throttled"),
    ("InventedLater", 504, "aws.service.unavailable"),
    ("InventedLater", 400, "aws.request.rejected"),
    ("InventedLater", None, "aws.request.rejected"),
    ("", None, "aws.request.rejected"),
]


@pytest.mark.parametrize(("provider_code", "status", "code"), INFRASTRUCTURE)
def test_what_holds_the_jobs_answers_in_the_layer_aws(
    provider_code: str, status: int | None, code: str
) -> None:
    assert code == classify(aws(provider_code, status)).code


@pytest.mark.parametrize(
    ("reasons", "code"),
    [
        (["None", "ConditionalCheckFailed"], "aws.condition.refused"),
        (["TransactionConflict", "ConditionalCheckFailed"], "aws.condition.refused"),
        (["TransactionConflict", "None"], "aws.transaction.conflict"),
        (["ThrottlingError", "TransactionConflict"], "aws.service.throttled"),
        (["ProvisionedThroughputExceeded"], "aws.service.throttled"),
        (["ValidationError", "TransactionConflict"], "aws.request.invalid"),
        (["ItemCollectionSizeLimitExceeded"], "aws.request.rejected"),
        ([], "aws.request.rejected"),
    ],
)
def test_a_cancelled_transaction_is_judged_by_its_reasons(
    reasons: list[str], code: str
) -> None:
    error = aws(
        "TransactionCanceledException",
        CancellationReasons=[{"Code": reason} for reason in reasons],
    )

    assert code == classify(error).code


@pytest.mark.parametrize("layer", ["llm", "tool"])
def test_every_status_has_a_code_of_the_registry(layer: str) -> None:
    codes = {
        classify(aws("InventedLater", status), layer=layer).code
        for status in range(100, 600)
    }

    assert set() == codes - REGISTRY.keys()


@pytest.mark.parametrize(("value", "expected"), [("7", 7.0), ("soon", None)])
def test_retry_after_is_read_from_the_metadata(
    value: str, expected: float | None
) -> None:
    error = aws("ThrottlingException", 429, headers={"retry-after": value})

    assert expected == classify(error).retry_after


def test_a_message_is_never_read() -> None:
    error = aws("ValidationException")

    assert "503" in classify(error).message
    assert classify(error).error_class == "permanent"


@pytest.mark.parametrize(
    ("code", "skew_s", "expected", "said"),
    [
        ("InvalidSignatureException", 930, "aws.clock.skewed", "0:15:3"),
        ("SignatureDoesNotMatch", -7205, "aws.clock.skewed", "2:00:0"),
        ("RequestTimeTooSkewed", 1025, "aws.clock.skewed", "0:17:0"),
        ("RequestTimeTooSkewed", None, "aws.clock.skewed", "never read"),
        ("InvalidSignatureException", 5, "aws.credentials.invalid", "never read"),
        ("InvalidSignatureException", None, "aws.credentials.invalid", "never read"),
        ("AccessDenied", 900, "aws.access.denied", "never read"),
    ],
)
def test_a_clock_that_differs_is_named_with_its_difference(
    code: str, skew_s: float | None, expected: str, said: str
) -> None:
    headers = {}
    if skew_s is not None:
        headers["date"] = formatdate(time.time() - skew_s, usegmt=True)
    found = classify(aws(code, 403, headers=headers))
    assert expected == found.code
    assert said in found.message
    assert "behind" not in found.message or skew_s is None or skew_s < 0
    if expected == "aws.clock.skewed":
        assert expected == classify(aws(code, 403, "Converse", headers)).code
