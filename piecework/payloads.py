"""Chunk payloads: packed into few objects at submit, read by byte range at work.

    tenants/<tenant>/jobs/<job>/payload/<hash>.jsonl     one payload a line

A pack is named by its content, so that writing it twice is writing it once. Readers
fetch aligned windows and keep a few: SQS hands out chunks roughly in their order, so
that one request serves many neighbours, however small they are.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from dataclasses import dataclass, field

from piecework import keys, record
from piecework.objects import Objects, verify

#: Bytes a pack may grow to before the next one begins: what the submitter holds.
PACK_SIZE = 8 * 1024 * 1024
#: Bytes of one read, and how many reads a worker keeps: at most 16 MiB.
WINDOW = 256 * 1024
WINDOWS_KEPT = 64
#: Bytes of a payload, at most; one is held whole, and parsed.
MOST_BYTES = 10 * 1024 * 1024
#: What names a pack is a name, so that it leads nowhere else.
_PLACE = re.compile(
    r"(?P<pack>[A-Za-z0-9_-]{1,64})/(?P<offset>[0-9]{1,12})\+(?P<length>[0-9]{1,12})\Z"
)


@dataclass(frozen=True, slots=True)
class PayloadRef:
    """Where a payload lies: its pack, the offset and length in bytes."""

    pack: str
    offset: int
    length: int

    def __str__(self) -> str:
        """Return the form that a chunk item carries."""
        return f"{self.pack}/{self.offset}+{self.length}"

    @classmethod
    def parse(cls, text: str) -> PayloadRef:
        """Read the form that a chunk item carries.

        Raises:
            PermanentError: `runtime.record.unreadable`: it may name no other object,
                nor more than a payload may have.
        """
        found = _PLACE.match(text)
        if found is None or not 0 < int(found["length"]) <= MOST_BYTES:
            raise record.unreadable_error("The place of a payload", "is none of ours")
        return cls(found["pack"], int(found["offset"]), int(found["length"]))


def pack_key(tenant: str, job: str, pack: str) -> str:
    """Return the object of a pack."""
    return f"{keys.object_prefix(tenant, job)}/payload/{pack}.jsonl"


@dataclass(slots=True)
class Payloads:
    """The payloads that a worker reads."""

    objects: Objects
    _windows: OrderedDict[tuple[str, int], asyncio.Future[bytes]] = field(
        default_factory=OrderedDict
    )

    async def read(self, tenant: str, job: str, ref: PayloadRef, sha256: str) -> bytes:
        """Return a payload's bytes, as they were submitted.

        Raises:
            StateError: `runtime.object.missing`.
            PermanentError: `runtime.payload.corrupt`.
        """
        key = pack_key(tenant, job, ref.pack)
        content = await self._slice(key, ref)
        verify(content, sha256, f"The payload {ref}")
        return content

    async def _slice(self, key: str, ref: PayloadRef) -> bytes:
        first, last = ref.offset // WINDOW, (ref.offset + ref.length - 1) // WINDOW
        if last - first > 1:
            return await self.objects.get(key, start=ref.offset, length=ref.length)
        windows = [await self._window(key, i) for i in range(first, last + 1)]
        start = ref.offset - first * WINDOW
        return b"".join(windows)[start : start + ref.length]

    async def _window(self, key: str, index: int) -> bytes:
        place = (key, index)
        if place in self._windows:
            self._windows.move_to_end(place)
            return await asyncio.shield(self._windows[place])
        reading = asyncio.ensure_future(
            self.objects.get(key, start=index * WINDOW, length=WINDOW)
        )
        reading.add_done_callback(lambda read: self._keep(place, read))
        self._windows[place] = reading
        if len(self._windows) > WINDOWS_KEPT:
            self._windows.popitem(last=False)
        return await asyncio.shield(reading)

    def _keep(self, place: tuple[str, int], reading: asyncio.Future[bytes]) -> None:
        """Forget a read that failed, whether or not somebody still waits for it."""
        failed = reading.cancelled() or reading.exception() is not None
        if failed and self._windows.get(place) is reading:
            del self._windows[place]
