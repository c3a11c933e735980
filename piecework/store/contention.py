"""Contention of writes: neither a failed condition nor a bug."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

#: Answers that say "not now" rather than "no": the same write is sent again, a
#: transaction with its own token, so that it cannot be applied twice.
CONTENTION = {
    "TransactionConflict",
    "TransactionConflictException",
    "TransactionInProgressException",
    "ThrottlingError",
    "ProvisionedThroughputExceeded",
}


def contended(error: ClientError) -> bool:
    """Return whether the write collided with another one and may be sent again."""
    codes = {reason.get("Code", "None") for reason in reasons(error)} - {"None"}
    if codes:
        return codes <= CONTENTION
    return error.response["Error"]["Code"] in CONTENTION


def reasons(error: ClientError) -> list[dict[str, Any]]:
    """Return the reason of each action of a cancelled transaction."""
    found: Any = error.response.get("CancellationReasons", [])
    return list(found)
