"""Cancel a chunk: at once where nobody has it, else by asking its holder.

The chunk, not the job, is where a cancel is decided: a claim and a settlement race
with it on the same item, and one of them wins.
"""

from __future__ import annotations

from typing import Any

from piecework.model import Chunk, ChunkStatus, iso
from piecework.ports import CancelRequest
from piecework.store.rescue import AS_READ, NOT_RENEWED_SINCE
from piecework.store.table import Table, Written

#: Nothing has decided yet that it goes to its end, be it back or onwards.
HAS_NO_DIRECTION = "attribute_not_exists(direction)"
UNCLAIMED = f"{AS_READ} AND {HAS_NO_DIRECTION}"
RUNNING_IN_THIS_GEN = "#status = :running AND gen = :gen"


async def cancel_unclaimed(table: Table, chunk: Chunk, now: float) -> bool:
    """PENDING | WAITING | RUNNING with a dead lease -> CANCELLED."""
    running = chunk.status is ChunkStatus.RUNNING
    beat = {"renewals": chunk.renewal_mark[1]} if running else {}
    action = table.action(
        "Update",
        chunk.ref.pk,
        chunk.ref.sk,
        condition=f"{UNCLAIMED} AND {NOT_RENEWED_SINCE}" if running else UNCLAIMED,
        update="SET #status = :cancelled, settled_at = :now, cancelled_at_stage = :at"
        " REMOVE claimed_by, claim_expires_at, claim_token, redispatch_at, retry_at",
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


async def request_cancel(table: Table, chunk: Chunk, asked: CancelRequest) -> bool:
    """Ask the holder of a RUNNING chunk to stop; no claim after it succeeds."""
    asking, values = cancel_assignments(asked)
    action = table.action(
        "Update",
        chunk.ref.pk,
        chunk.ref.sk,
        condition=RUNNING_IN_THIS_GEN,
        update=f"SET {asking}",
        values={"running": ChunkStatus.RUNNING, "gen": chunk.gen, **values},
    )
    return isinstance(await table.update(action, returning="NONE"), Written)


async def request_compensation(
    table: Table, chunk: Chunk, asked: CancelRequest, redispatch_at: float
) -> bool:
    """Ask the next worker that meets a PENDING or WAITING chunk to wind it back.

    At once, not at `retry_at`. Should the message that goes with it be lost, it is
    sent again at `redispatch_at`.
    """
    asking, values = cancel_assignments(asked)
    action = table.action(
        "Update",
        chunk.ref.pk,
        chunk.ref.sk,
        condition=UNCLAIMED,
        update=f"SET {asking}, redispatch_at = :due REMOVE retry_at",
        values={
            "seen": chunk.status,
            "gen": chunk.gen,
            "fence": chunk.fence,
            "due": iso(redispatch_at),
            **values,
        },
    )
    return isinstance(await table.update(action, returning="NONE"), Written)


def cancel_assignments(asked: CancelRequest) -> tuple[str, dict[str, Any]]:
    """Return the assignments that ask for a chunk to stop, and their values."""
    if asked.compensate:
        assignments = "cancel_requested_at = :asked, compensate_requested = :yes"
        return assignments, {"asked": asked.at, "yes": True}
    return "cancel_requested_at = :asked", {"asked": asked.at}


def cancelled_at(stage: str) -> str:
    """Return where a cancelled chunk stopped, in the words that people look for."""
    return f"cancelled-at-stage-{stage}"
