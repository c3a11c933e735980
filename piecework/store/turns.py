"""Decide which way a chunk that nobody holds goes to its end, when a cancel undoes.

Before its pivot it goes back: a TURN row says why, and whoever claims it next undoes
what it did. From its pivot on there is only onwards.
"""

from __future__ import annotations

from piecework import keys
from piecework.errors import ErrorEnvelope
from piecework.model import Chunk, ChunkRef, ChunkStatus
from piecework.store.cancels import UNCLAIMED
from piecework.store.rescue import NOT_RENEWED_SINCE
from piecework.store.table import Action, Table, Written

#: What `direction` says; an item without it goes onwards, and may still be cancelled.
COMPENSATING, FORWARD = "compensating", "forward"


async def set_direction(
    table: Table, chunk: Chunk, failure: ErrorEnvelope | None
) -> bool:
    """PENDING | WAITING | RUNNING with a dead lease -> WAITING, on its way to its end.

    Back, for the reason that `failure` is; onwards without one. It may be claimed at
    once.
    """
    running = chunk.status is ChunkStatus.RUNNING
    beat = {"renewals": chunk.renewal_mark[1]} if running else {}
    code = {"code": failure.code} if failure else {}
    update = table.action(
        "Update",
        chunk.ref.pk,
        chunk.ref.sk,
        condition=f"{UNCLAIMED} AND {NOT_RENEWED_SINCE}" if running else UNCLAIMED,
        update="SET #status = :waiting, direction = :way"
        + (", error_code = :code" if failure else "")
        + " REMOVE claimed_by, claim_expires_at, claim_token, retry_at",
        values={
            "seen": chunk.status,
            "gen": chunk.gen,
            "fence": chunk.fence,
            "waiting": ChunkStatus.WAITING,
            "way": COMPENSATING if failure else FORWARD,
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
    """Return the write that says why a chunk turned back, and at which stage."""
    sk = f"{keys.work_prefix(ref.chunk)}COMPENSATION#{gen:04d}"
    item = {"stage": stage, "error": failure.model_dump_json(exclude_none=True)}
    return table.action("Put", ref.pk, sk, item=item)
