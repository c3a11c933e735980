"""Set the direction of a chunk without an owner, when a cancel compensates.

Before its pivot the chunk compensates: a COMPENSATION row has the reason, and the next
claim runs the compensation. From its pivot on, the chunk only goes forward.
"""

from __future__ import annotations

from piecework import keys
from piecework.errors import ErrorEnvelope
from piecework.model import Chunk, ChunkRef, ChunkStatus
from piecework.store.cancels import UNCLAIMED
from piecework.store.rescue import NOT_RENEWED_SINCE
from piecework.store.table import Action, Table, Written

#: Values of `direction`; a chunk without it goes forward and may still be cancelled.
COMPENSATING, FORWARD = "compensating", "forward"


async def set_direction(
    table: Table, chunk: Chunk, failure: ErrorEnvelope | None
) -> bool:
    """Move PENDING | WAITING | RUNNING with an expired lease -> WAITING.

    With `failure`, the reason, it compensates; without one it goes forward. It may be
    claimed at once.
    """
    running = chunk.status is ChunkStatus.RUNNING
    beat = {"renewals": chunk.renewal_mark[1]} if running else {}
    code = {"code": failure.code} if failure else {}
    update = table.action(
        "Update",
        chunk.ref.pk,
        chunk.ref.sk,
        condition=f"{UNCLAIMED} AND {NOT_RENEWED_SINCE}" if running else UNCLAIMED,
        update="SET #status = :waiting, direction = :direction"
        + (", error_code = :code" if failure else "")
        + " REMOVE claimed_by, claim_expires_at, claim_token, retry_at",
        values={
            "seen": chunk.status,
            "gen": chunk.gen,
            "fence": chunk.fence,
            "waiting": ChunkStatus.WAITING,
            "direction": COMPENSATING if failure else FORWARD,
            **beat,
            **code,
        },
    )
    if failure is None:
        return isinstance(await table.update(update, returning="NONE"), Written)
    row = compensation_put(
        table, chunk.ref, chunk.gen, str(chunk.item["stage"]), failure
    )
    return isinstance(await table.transact([update, row]), Written)


def compensation_put(
    table: Table, ref: ChunkRef, gen: int, stage: str, failure: ErrorEnvelope
) -> Action:
    """Return the write of the reason and the stage of a compensation."""
    sk = f"{keys.work_prefix(ref.chunk)}COMPENSATION#{gen:04d}"
    item = {"stage": stage, "error": failure.model_dump_json(exclude_none=True)}
    return table.action("Put", ref.pk, sk, item=item)
