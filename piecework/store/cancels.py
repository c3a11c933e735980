"""Cancel a chunk that nobody works on."""

from __future__ import annotations

from piecework.model import Chunk, ChunkStatus, iso
from piecework.store.rescue import NOT_A_BEAT_SINCE
from piecework.store.table import Table, Written

#: Still as it was looked at, and asked to stop: no holder has it.
UNCLAIMED = (
    "#status = :seen AND gen = :gen AND fence = :fence"
    " AND attribute_exists(cancel_requested)"
)


async def cancel_unclaimed(table: Table, chunk: Chunk, now: float) -> bool:
    """PENDING | WAITING | RUNNING with a dead lease -> CANCELLED."""
    running = chunk.status is ChunkStatus.RUNNING
    beat = {"heartbeat": chunk.heartbeat[1]} if running else {}
    action = table.action(
        "Update",
        chunk.ref.pk,
        chunk.ref.sk,
        condition=f"{UNCLAIMED} AND {NOT_A_BEAT_SINCE}" if running else UNCLAIMED,
        update="SET #status = :cancelled, settled_at = :now"
        " REMOVE claimed_by, claim_expires_at, due_at, retry_at",
        values={
            "seen": chunk.status,
            "gen": chunk.gen,
            "fence": chunk.fence,
            "cancelled": ChunkStatus.CANCELLED,
            "now": iso(now),
            **beat,
        },
    )
    return isinstance(await table.update(action, returning="NONE"), Written)
