"""Cancel a chunk: at once where nobody has it, else by asking its holder.

The chunk, not the job, is where a cancel is decided: a claim and a settlement race
with it on the same item, and one of them wins.
"""

from __future__ import annotations

from piecework.model import Chunk, ChunkStatus, iso
from piecework.store.rescue import AS_SEEN, NOT_A_BEAT_SINCE
from piecework.store.table import Table, Written

#: What it did is being undone: that is not cut off.
NOT_ON_ITS_WAY_BACK = "attribute_not_exists(direction)"
UNCLAIMED = f"{AS_SEEN} AND {NOT_ON_ITS_WAY_BACK}"
RUNNING_IN_THIS_GEN = "#status = :running AND gen = :gen"


async def cancel_unclaimed(table: Table, chunk: Chunk, now: float) -> bool:
    """PENDING | WAITING | RUNNING with a dead lease -> CANCELLED."""
    running = chunk.status is ChunkStatus.RUNNING
    beat = {"heartbeat": chunk.heartbeat[1]} if running else {}
    action = table.action(
        "Update",
        chunk.ref.pk,
        chunk.ref.sk,
        condition=f"{UNCLAIMED} AND {NOT_A_BEAT_SINCE}" if running else UNCLAIMED,
        update="SET #status = :cancelled, settled_at = :now, cancelled = :at"
        " REMOVE claimed_by, claim_expires_at, claim_token, due_at, retry_at",
        values={
            "seen": chunk.status,
            "gen": chunk.gen,
            "fence": chunk.fence,
            "cancelled": ChunkStatus.CANCELLED,
            "at": cancelled_at(str(chunk.item["stage"])),
            "now": iso(now),
            **beat,
        },
    )
    return isinstance(await table.update(action, returning="NONE"), Written)


async def request_cancel(table: Table, chunk: Chunk) -> bool:
    """Ask the holder of a RUNNING chunk to stop; no claim after it succeeds."""
    action = table.action(
        "Update",
        chunk.ref.pk,
        chunk.ref.sk,
        condition=RUNNING_IN_THIS_GEN,
        update="SET cancel_requested = :yes",
        values={"running": ChunkStatus.RUNNING, "gen": chunk.gen, "yes": True},
    )
    return isinstance(await table.update(action, returning="NONE"), Written)


def cancelled_at(stage: str) -> str:
    """Return where a cancelled chunk stopped, in the words that people look for."""
    return f"cancelled-at-stage-{stage}"
