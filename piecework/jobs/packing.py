"""Store the payloads of a new job in packs, and spool the lines of its manifest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import IO

from piecework.aws.payloads import PACK_SIZE, PayloadRef
from piecework.domain import keys
from piecework.domain.chunk_input import ChunkInput
from piecework.domain.priority import Priority, backlog_start, ordered_backlog_start
from piecework.domain.refs import JobRef
from piecework.jobs.fan_out import Progress
from piecework.jobs.manifest import Entry
from piecework.jobs.submit_order import SubmitOrder
from piecework.runtime import Runtime

#: Chunks between two reports of how many are read.
REPORT_EVERY = 256


async def pack(
    rt: Runtime,
    ref: JobRef,
    chunks: AsyncIterator[ChunkInput],
    spool: IO[bytes],
    progress: Progress,
) -> Packed:
    """Store the payloads in packs and spool the manifest; return what was packed."""
    packer = Packer(rt, ref, spool)
    read = 0
    async for chunk in chunks:
        await packer.add(chunk)
        read += 1
        if read % REPORT_EVERY == 0:
            progress("read", read)
    await packer.close()
    progress("read", packer.packed)
    return Packed(
        packer.packed, packer.payload_bytes, packer.largest_payload, packer.order
    )


@dataclass(frozen=True, slots=True)
class Packed:
    """The payloads that were packed."""

    chunks: int
    payload_bytes: int
    largest_payload: int
    order: SubmitOrder


@dataclass(slots=True)
class Packer:
    """Writes payloads into packs; keeps one pack in memory, whatever the job's size."""

    rt: Runtime
    ref: JobRef
    spool: IO[bytes]
    packed: int = 0
    payload_bytes: int = 0
    largest_payload: int = 0
    order: SubmitOrder = field(init=False)
    _content: bytearray = field(default_factory=bytearray)
    #: The label, the payload length and the order key of each chunk in the pack.
    _pending: list[tuple[str, int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.order = SubmitOrder(self.ref)

    async def add(self, chunk: ChunkInput) -> None:
        """Add a payload; store the pack if it is full."""
        self._pending.append((chunk.label, len(chunk.payload), chunk.order_key))
        self._content += chunk.payload
        self.payload_bytes += len(chunk.payload)
        self.largest_payload = max(self.largest_payload, len(chunk.payload))
        self._content += b"\n"
        if len(self._content) >= PACK_SIZE:
            await self.close()

    async def close(self) -> None:
        """Store the pack, and write its lines of the manifest."""
        if not self._pending:
            return
        content, self._content = bytes(self._content), bytearray()
        pack = keys.sha256(content)[:32]
        object_key = keys.pack_key(self.ref.tenant, self.ref.job, pack)
        await self.rt.objects.put(object_key, content, "application/jsonl")
        offset = 0
        for label, length, order_key in self._pending:
            place = str(PayloadRef(pack, offset, length))
            sha256 = keys.sha256(content[offset : offset + length])
            order = self.order.add(self.packed, order_key)
            self.spool.write(Entry(self.packed, label, place, sha256, *order).line())
            offset += length + 1
            self.packed += 1
        self._pending.clear()


def start_of_backlog(priority: Priority, packed: Packed) -> int | None:
    """Return the first chunk of the backlog; None: the job needs no backlog."""
    if packed.order.has_keys:
        return ordered_backlog_start(priority, packed.order.heads)
    return backlog_start(priority, packed.chunks)
