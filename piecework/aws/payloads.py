"""Read the payloads of chunks, which a submit packs into few objects.

    tenants/<tenant>/jobs/<job>/payload/<hash>.jsonl     one payload a line

A pack is named by its hash, so a second write of it changes nothing. Readers fetch
aligned windows and keep a few. SQS delivers chunks roughly in their order, so one
request serves many neighbours.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from dataclasses import dataclass, field

from piecework.aws.objects import Objects, verify
from piecework.domain import keys, records

#: Bytes of a pack at most. A submit holds one pack in memory.
PACK_SIZE = 8 * 1024 * 1024

#: Bytes of a window, and how many windows a worker keeps: at most 16 MiB.
WINDOW = 256 * 1024

WINDOWS_KEPT = 64

#: Bytes of a payload at most. A worker holds a whole payload to parse it.
MOST_BYTES = 10 * 1024 * 1024

#: The name of a pack has no separator, so it cannot lead to another folder.
_PLACE = re.compile(
    r"(?P<pack>[A-Za-z0-9_-]{1,64})/(?P<offset>[0-9]{1,12})\+(?P<length>[0-9]{1,12})\Z"
)


@dataclass(frozen=True, slots=True)
class PayloadRef:
    """The position of a payload: its pack, with offset and length in bytes."""

    pack: str
    offset: int
    length: int

    def __str__(self) -> str:
        """Return the text that a chunk's row stores."""
        return f"{self.pack}/{self.offset}+{self.length}"

    @classmethod
    def parse(cls, text: str) -> PayloadRef:
        """Read the text that a chunk's row stores.

        Raises:
            PermanentError: `runtime.record.unreadable`: the text is malformed, or the
                length is above the limit.
        """
        found = _PLACE.match(text)
        if found is None or not 0 < int(found["length"]) <= MOST_BYTES:
            raise records.unreadable_error("The place of a payload", "is malformed")
        return cls(found["pack"], int(found["offset"]), int(found["length"]))


@dataclass(slots=True)
class Payloads:
    """Reads payloads, and keeps the latest windows."""

    objects: Objects
    _windows: OrderedDict[tuple[str, int], asyncio.Future[bytes]] = field(
        default_factory=OrderedDict
    )

    async def read(self, tenant: str, job: str, ref: PayloadRef, sha256: str) -> bytes:
        """Return the bytes of a payload, checked against their hash.

        Raises:
            StateError: `runtime.object.missing`.
            PermanentError: `runtime.payload.corrupt`.
        """
        key = keys.pack_key(tenant, job, ref.pack)
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
        """Drop the window of a failed read, so that the next reader tries again."""
        failed = reading.cancelled() or reading.exception() is not None
        if failed and self._windows.get(place) is reading:
            del self._windows[place]
