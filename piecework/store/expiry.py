"""When housekeeping may delete an item: never a lease, for it comes days late."""

from __future__ import annotations

DAY_S = 86_400


def expires_at(now: float, days: float) -> int:
    """Return the table's TTL, in whole seconds of Unix time, so many days from now."""
    return int(now + days * DAY_S)
