"""A module of calls, as a stage names it."""

from __future__ import annotations

from pydantic import BaseModel


class Item(BaseModel):
    """A payload."""

    n: int = 0


async def close(n: int, *, idempotency_key: str) -> int:
    """Close an account."""
    del idempotency_key
    return n
