"""Responses that the jobs of a tenant share, in the table; never worth a failed call.

A response stays as it was first written until its time is over; `valid_until` decides
that on every read, for DynamoDB deletes late. Above 64 KiB it is not kept: reading it
from S3 would cost another request, and most calls that are asked twice are small.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass

from piecework import keys, telemetry
from piecework.errors import StoreError
from piecework.model import iso
from piecework.objects import INLINE_LIMIT
from piecework.record import read_optional_text
from piecework.store.table import Table

#: Seconds after which a slow table is not waited for.
PATIENCE_S = 2.0
#: Nothing is kept, or what is kept is over.
NOT_KEPT = "attribute_not_exists(pk) OR valid_until <= :now"


@dataclass(slots=True)
class TableResponses:
    """The shared responses of one tenant."""

    table: Table
    tenant: str
    clock: Callable[[], float]
    log: telemetry.Log

    async def recall(self, key: str) -> str | None:
        """Return a response whose time is not over."""
        pk = keys.response_pk(self.tenant, key)
        try:
            async with asyncio.timeout(PATIENCE_S):
                item = await self.table.get(pk, keys.RESPONSE_SK)
        except (StoreError, TimeoutError) as error:
            self._tell(error)
            return None
        until = read_optional_text(item or {}, "valid_until")
        if until is None or until <= iso(self.clock()):
            return None
        return read_optional_text(item or {}, "value")

    async def keep(self, key: str, value: str, seconds: float) -> None:
        """Remember a response, unless one is kept already."""
        if len(value.encode()) > INLINE_LIMIT:
            return
        now = self.clock()
        action = self.table.action(
            "Put",
            keys.response_pk(self.tenant, key),
            keys.RESPONSE_SK,
            condition=NOT_KEPT,
            values={"now": iso(now)},
            item={
                "value": value,
                "valid_until": iso(now + seconds),
                "expires_at": math.ceil(now + seconds),
            },
        )
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.table.put(action)
        except (StoreError, TimeoutError) as error:
            self._tell(error)

    def _tell(self, error: StoreError | TimeoutError) -> None:
        reason = error.code if isinstance(error, StoreError) else "timeout"
        telemetry.emit(self.log, "cache.failed", reason=reason)
