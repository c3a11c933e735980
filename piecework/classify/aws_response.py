"""botocore's ClientError: AWS answered with an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from piecework.classify.aws_codes import AWS, LLM, MEANINGS, Meaning
from piecework.classify.http_status import status_code
from piecework.classify.retry_after import retry_after
from piecework.classify.verdict import Verdict

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
    return Verdict(
        code_of(response, provider_code, status),
        http_status=status,
        provider_code=provider_code or None,
        retry_after=retry_after(metadata.get("HTTPHeaders"), now),
    )


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
