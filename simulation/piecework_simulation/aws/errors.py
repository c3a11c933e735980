"""The errors of AWS as botocore raises them, from the sentence to the exception."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from botocore.exceptions import ClientError


class InvalidError(Exception):
    """The service refuses the request as such; becomes a ValidationException."""


def error(operation: str, code: str, message: str, **parts: Any) -> ClientError:
    """Return an error of a service, for an operation by its method's name."""
    response: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": 400, "RetryAttempts": 0},
        "message": message,
        **parts,
    }
    return ClientError(response, operation.title().replace("_", ""))


def refused(operation: str, item: Mapping[str, Any] | None) -> ClientError:
    """Return the error of a failed condition."""
    parts = {"Item": item} if item else {}
    code, message = "ConditionalCheckFailedException", "The conditional request failed"
    return error(operation, code, message, **parts)


def cancelled(reasons: Sequence[Mapping[str, Any]]) -> ClientError:
    """Return the error of a transaction in which an action failed."""
    codes = ", ".join(str(reason["Code"]) for reason in reasons)
    message = (
        "Transaction cancelled, please refer cancellation reasons for specific"
        f" reasons [{codes}]"
    )
    return error(
        "transact_write_items",
        "TransactionCanceledException",
        message,
        CancellationReasons=list(reasons),
    )


NO_REASON: Mapping[str, Any] = {"Code": "None"}


def condition_reason(item: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the cancellation reason of an action whose condition failed."""
    parts = {"Item": dict(item)} if item else {}
    message = "The conditional request failed"
    return {"Code": "ConditionalCheckFailed", "Message": message, **parts}


# ── interface that decides when a service shows a rare fault ──────────────────


class Chaos(Protocol):
    """Decides, from a seed, whether the rare thing happens this time."""

    def fires(self, kind: str) -> bool:
        """Draw once for a kind of fault."""
        ...


class Calm:
    """Nothing rare ever happens."""

    def fires(self, kind: str) -> bool:  # noqa: ARG002 -- the protocol's argument
        """Return False."""
        return False
