"""The TTL attribute of items. DynamoDB deletes days late, so no lease relies on it."""

from __future__ import annotations

DAY_S = 86_400


def expires_at(now: float, days: float) -> int:
    """Return the TTL in whole seconds of Unix time, `days` after `now`."""
    return int(now + days * DAY_S)
