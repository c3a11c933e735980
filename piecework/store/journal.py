"""The remembered results of a chunk's pure calls, written in pages.

A call's result is paid for; losing it means paying again. It is kept in memory at
once and in the table within `journal_flush_s`, together with its neighbours: 25
calls cost one write. A claim writes pages of its own, so that a worker that lost its
claim disturbs nobody; what it still writes is true, and harmless.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import structlog

from piecework import telemetry
from piecework.aws.objects import INLINE_LIMIT, Objects
from piecework.domain import keys, records
from piecework.domain.claim import Claim
from piecework.domain.model import iso
from piecework.domain.records import read_optional_text
from piecework.domain.rows import CallsRow, Row
from piecework.errors import StoreError
from piecework.settings import Settings
from piecework.store.dead_letters import expires_at
from piecework.store.table import Table

#: Bytes of results in one page: well below the 400 KB that an item may hold.
PAGE_BYTES = 256 * 1024


@dataclass(slots=True)
class CallJournal:
    """The journal of one claim."""

    table: Table
    objects: Objects
    claim: Claim
    settings: Settings
    clock: Callable[[], float]
    log: structlog.stdlib.BoundLogger
    _known: dict[str, str] = field(default_factory=dict)
    _pending: dict[str, str] = field(default_factory=dict)
    _pages: int = 0
    _timer: asyncio.Task[None] | None = None
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def prefix(self) -> str:
        """What the keys of the job's objects begin with."""
        return keys.object_prefix(self.claim.ref.tenant, self.claim.ref.job)

    async def load(self, pages: Iterable[CallsRow]) -> None:
        """Load the calls that earlier claims remembered."""
        for page in pages:
            calls, large = page.calls, page.large
            for key in calls:
                self._known[key] = records.read_text(calls, key, "A remembered call")
            for key, entry in large.items():
                self._known[key] = await self.objects.get_value(Row(entry), self.prefix)

    def recall(self, key: str) -> str | None:
        """Return a remembered result."""
        return self._known.get(key)

    async def record(self, key: str, value: str) -> None:
        """Remember a result; it is written within `journal_flush_s`.

        Who fills a page waits until it is written. Results that come meanwhile are the
        beginning of the next one: were each to wait, it would be a page of its own.
        """
        self._known[key] = value
        self._pending[key] = value
        full = self.settings.journal_page
        if len(self._pending) >= full and not self._writing.locked():
            self._stop_timer()
            try:
                await self.flush(full)
            finally:
                self._start_timer()
        else:
            self._start_timer()

    def _start_timer(self) -> None:
        """See to it that what is not written will be."""
        if self._pending and self._timer is None:
            self._timer = asyncio.create_task(self._flush_later())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _flush_later(self) -> None:
        await asyncio.sleep(self.settings.journal_flush_s)
        self._timer = None
        try:
            await self.flush()
        except Exception as error:  # noqa: BLE001 -- memory has it; the next flush tries
            telemetry.emit(self.log, "journal.flush_failed", error=type(error).__name__)

    async def flush(self, least: int = 1) -> None:
        """Write what is remembered and not written, if it is as many results."""
        async with self._writing:
            while len(self._pending) >= least:
                batch = take_page(self._pending)
                await self._write(batch)
                for key in batch:
                    self._pending.pop(key, None)

    async def _write(self, batch: dict[str, str]) -> None:
        claim, self._pages = self.claim, self._pages + 1
        sk = keys.calls_sk(claim.ref.chunk, claim.gen, claim.fence, self._pages)
        small, large = {}, {}
        for key, value in batch.items():
            place = keys.call_value_key(claim.ref.tenant, claim.ref.job, key)
            entry = await self.objects.put_value(value, place)
            if "value" in entry:
                small[key] = value
            else:
                large[key] = entry
        item: dict[str, Any] = {
            "calls": small,
            "large": large or None,
            "expires_at": expires_at(self.clock(), self.settings.job_retention_days),
        }
        condition = "attribute_not_exists(pk)"
        await self.table.put(
            self.table.action("Put", claim.ref.pk, sk, condition=condition, item=item)
        )

    async def close(self, *, keep: bool) -> None:
        """Stop the timer; write the rest if somebody may still need it.

        What is not kept is forgotten by a flush under way, too, after its page.
        """
        self._stop_timer()
        if keep:
            await self.flush()
        else:
            self._pending.clear()


def take_page(pending: dict[str, str]) -> dict[str, str]:
    """Return the first results that fit into one page."""
    page: dict[str, str] = {}
    size = 0
    for key, value in pending.items():
        size += len(key) + min(len(value.encode()), PAGE_BYTES // 2)
        if page and size > PAGE_BYTES:
            break
        page[key] = value
    return page


# Responses that the jobs of a tenant share, in the table; never worth a failed call.
#
# A response stays as it was first written until its time is over; `valid_until` decides
# that on every read, for DynamoDB deletes late. Above 64 KiB it is not kept: reading it
# from S3 would cost another request, and most calls that are asked twice are small.

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
