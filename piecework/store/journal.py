"""The journal of a chunk: the stored answers of its calls, written in pages.

A lost answer is paid again. An answer is in memory at once. It is in the table within
`journal_flush_s`, together with its neighbours: 25 calls cost one write. Each claim
writes its own pages. A worker that lost its claim may still write a page. Its answers
are valid, and no page of another claim changes.

Each page has what all calls of its claim used so far: the bill of a claim that never
settled. A page that a lost claim writes is late: no later claim knew its answers.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from piecework import telemetry
from piecework.aws.objects import INLINE_LIMIT, Objects
from piecework.calls.recorder import CallRecorder
from piecework.calls.usage import ClaimUsage
from piecework.domain import keys, records
from piecework.domain.argument_digests import pack_digests
from piecework.domain.call_record import pack_records
from piecework.domain.claim import Claim
from piecework.domain.moments import iso
from piecework.domain.packed import packed
from piecework.domain.records import read_optional_text
from piecework.domain.rows import CallsRow, Row
from piecework.errors import StoreError
from piecework.settings import Settings
from piecework.store.table import Table

if TYPE_CHECKING:
    import structlog

#: Bytes of answers in one page: well below the 400 KB that an item may hold.
PAGE_BYTES = 256 * 1024


@dataclass(slots=True)
class CallJournal:
    """The journal of one claim.

    Attributes:
        usage: What the calls of the claim used so far.
        is_lost: Whether another claim may own the chunk by now.
        code_version: That of the claim; empty: it is not known.
        recorder: Has the records of calls that no row has yet; None: there are none.
    """

    table: Table
    objects: Objects
    claim: Claim
    settings: Settings
    clock: Callable[[], float]
    log: structlog.stdlib.BoundLogger
    usage: ClaimUsage = field(default_factory=ClaimUsage)
    is_lost: Callable[[], bool] = lambda: False
    code_version: str = ""
    recorder: CallRecorder | None = None
    _known: dict[str, str] = field(default_factory=dict)
    #: The claim that wrote a stored answer, and the number of answers on its page.
    _pages_of: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: The most answers on a page of a claim that this one has replayed, by its fence.
    _replayed: dict[int, int] = field(default_factory=dict)
    #: The answers that each earlier claim has stored, by its fence.
    _stored: Counter[int] = field(default_factory=Counter)
    _pending: dict[str, str] = field(default_factory=dict)
    #: What was called, by the key of the call.
    _sites: dict[str, str] = field(default_factory=dict)
    #: The digests of its arguments, by the key of the call, until a page has them.
    _digests: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _dropped: dict[str, str] = field(default_factory=dict)
    _pages: int = 0
    _timer: asyncio.Task[None] | None = None
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _patient: bool = True

    @property
    def prefix(self) -> str:
        """The prefix of the job's object keys."""
        return keys.object_prefix(self.claim.ref.tenant, self.claim.ref.job)

    async def load(self, pages: Iterable[CallsRow]) -> None:
        """Load the answers that earlier claims stored."""
        for page in pages:
            calls, large = page.read_answers(), page.large
            answers = {k: records.read_text(calls, k, "A stored answer") for k in calls}
            size = count = len(answers) + len(large)
            if sum(map(len, answers.values())) > PAGE_BYTES // 2:
                size = self.settings.journal_page  # its flush may have filled others
            self._stored[page.fence] += count
            place = page.fence, size
            self._pages_of.update(dict.fromkeys([*calls, *large], place))
            self._known |= answers
            for key, entry in large.items():
                self._known[key] = await self.objects.get_value(Row(entry), self.prefix)

    def recall(self, key: str) -> str | None:
        """Return the stored answer of a call; None: there is no answer."""
        if (place := self._pages_of.get(key)) is not None:
            fence, size = place
            self._replayed[fence] = max(size, self._replayed.get(fence, 0))
        return self._known.get(key)

    def lacked_by(self, lost: Collection[int]) -> int:
        """Return after how many answers of this claim no lost one can have called.

        A lost claim may have had answers that no page of it has: those of the last
        interval, and those that came while their page was written. Its pages show how
        many come in an interval. If it has no page of this stage, a full one is
        assumed. A call that is requested after more answers than these needs one that
        would be on a page.
        """
        full = self.settings.journal_page
        return max(
            (
                2 * self._replayed.get(fence, full)
                - sum(n for later, n in self._stored.items() if later > fence)
                for fence in lost
            ),
            default=0,
        )

    async def record(
        self,
        key: str,
        value: str,
        site: str = "",
        digests: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Store an answer; it is written within `journal_flush_s`.

        The call that fills a page waits for its write. Calls that end meanwhile do not
        wait: they start the next page. With 0 seconds each call waits: its caller has
        no answer that could be lost.
        """
        self._known[key] = value
        self._pending[key] = value
        if site:
            self._sites[key] = site
        if digests:
            self._digests[key] = digests
        full = self.settings.journal_page
        if not self.settings.journal_flush_s:
            await self.flush()
        elif len(self._pending) >= full and not self._writing.locked():
            self._stop_timer()
            try:
                await self.flush(full)
            finally:
                self._start_timer()
        else:
            self._start_timer()

    def _start_timer(self) -> None:
        """Schedule a flush if an answer is not written yet."""
        if self._pending and self._timer is None:
            self._timer = asyncio.create_task(self._flush_later())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def note_possibly_paid(self) -> None:
        """Let the table know of an attempt without an answer as soon as of one.

        Only this claim can count it: a later one repeats the call, not the attempt.
        """
        if self._timer is None:
            self._timer = asyncio.create_task(self._flush_later())

    async def _flush_later(self) -> None:
        await asyncio.sleep(self.settings.journal_flush_s)
        self._timer = None
        try:
            await self.flush()
            async with self._writing:
                if self.usage.noted != self.usage.stored:
                    await self._write({})
        except Exception as error:  # noqa: BLE001 -- memory has it; the next flush retries
            telemetry.emit(self.log, "journal.flush_failed", error=type(error).__name__)
            if not self.is_lost():
                self._start_timer()

    async def flush(self, least: int = 1) -> None:
        """Write the pending answers while there are at least `least`."""
        async with self._writing:
            while len(self._pending) >= least:
                batch = take_page(self._pending)
                await self._write(batch)
                for key in batch:
                    self._pending.pop(key, None)
                    self._digests.pop(key, None)

    async def _write(self, batch: dict[str, str]) -> None:
        claim, self._pages = self.claim, self._pages + 1
        sk = keys.calls_sk(claim.ref.chunk, claim.gen, claim.fence, self._pages)
        small: dict[str, Any] = {}
        large: dict[str, Any] = {}
        count = 0
        for key, value in batch.items():
            place = keys.call_value_key(claim.ref.tenant, claim.ref.job, key)
            try:
                entry = await self.objects.put_value(value, place)
            except StoreError:
                if self._patient:
                    raise
                continue  # the small answers need no bucket
            site = self._sites.get(key, "")
            count += 1
            if "value" in entry:
                group = small.setdefault(site, {}) if site else small
                group[key] = value
            else:
                large[key] = entry | ({"site": site} if site else {})
        recorder = self.recorder
        some = recorder.next_page() if recorder else []
        noted = self.usage.noted
        item: dict[str, Any] = {
            "answers": packed(small),
            "count": count,
            "large": large or None,
            "call_usage": self.usage.pure.item,
            "late": int(self.is_lost()) or None,
            "code_version": self.code_version or None,
            "records": pack_records(some),
            "arguments": pack_digests({k: self._digests.get(k, {}) for k in batch}),
            "expires_at": claim.expires_at,
        }
        condition = "attribute_not_exists(pk)"
        await self.table.put(
            self.table.item_write(
                "Put", claim.ref.pk, sk, condition=condition, item=item
            )
        )
        self.usage.stored = noted
        if recorder:
            recorder.written(len(some))

    async def close(self, *, keep: bool, patient: bool = True) -> None:
        """Stop the timer; with `keep` write the rest, also what an earlier close left.

        Without it, a flush in progress ends after its current page. Without `patient`,
        a large answer that the bucket does not take is given up, and paid for again.
        """
        self._patient = patient
        self._stop_timer()
        rest = self._dropped | self._pending
        if keep:
            self._dropped, self._pending = {}, rest
            await self.flush()
        else:
            self._dropped, self._pending = rest, {}

    async def write_late(self) -> None:
        """Write what a lost claim has paid for and not written, for the bill."""
        self._stop_timer()
        self.is_lost = lambda: True
        self._pending = self._dropped | self._pending
        await self.flush()


def take_page(pending: dict[str, str]) -> dict[str, str]:
    """Return the first answers that fit into one page."""
    page: dict[str, str] = {}
    size = 0
    for key, value in pending.items():
        size += len(key) + min(len(value.encode()), PAGE_BYTES // 2)
        if page and size > PAGE_BYTES:
            break
        page[key] = value
    return page


# ── the cache that the jobs of a tenant share ───────────────────────────────
#
# A failure of the cache does not fail a call. An answer stays as first written until
# `valid_until`; each read compares that, because DynamoDB deletes late. An answer above
# 64 KiB is not kept: a read from S3 would cost another request.

#: Seconds to wait for the table.
PATIENCE_S = 2.0
#: The cache has no valid answer.
NOT_KEPT = "attribute_not_exists(pk) OR valid_until <= :now"


@dataclass(slots=True)
class TableResponses:
    """The shared answers of a tenant."""

    table: Table
    tenant: str
    clock: Callable[[], float]
    log: telemetry.Log

    async def recall(self, key: str) -> str | None:
        """Return an answer that is still valid."""
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
        """Store an answer, unless the cache has a valid one."""
        if len(value.encode()) > INLINE_LIMIT:
            return
        now = self.clock()
        write = self.table.item_write(
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
                await self.table.put(write)
        except (StoreError, TimeoutError) as error:
            self._tell(error)

    def _tell(self, error: StoreError | TimeoutError) -> None:
        reason = error.code if isinstance(error, StoreError) else "timeout"
        telemetry.emit(self.log, "cache.failed", reason=reason)
