"""Cancel a chunk: at once if it has no owner, otherwise by a request to its owner.

A cancel is decided on the chunk, not on the job. A claim or a settlement at the same
time writes the same item, and exactly one of the writes wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.moments import iso
from piecework.domain.protocols import CancelRequest
from piecework.domain.refs import ChunkRef
from piecework.domain.states import ChunkStatus
from piecework.store.claims import WAIT
from piecework.store.table import ItemWrite, Table, Written
from piecework.store.takeovers import AS_READ, NOT_RENEWED_SINCE

if TYPE_CHECKING:
    from piecework.errors import ErrorEnvelope

#: It is not yet decided whether the chunk compensates or runs forward to its end.
HAS_NO_DIRECTION = "attribute_not_exists(direction)"
UNCLAIMED = f"{AS_READ} AND {HAS_NO_DIRECTION}"
RUNNING_IN_THIS_GEN = "#status = :running AND gen = :gen"


async def cancel_unclaimed(table: Table, chunk: Chunk, now: float) -> bool:
    """Move PENDING | WAITING | RUNNING with an expired lease -> CANCELLED."""
    write = cancelling(table, chunk, now)
    return isinstance(await table.update(write, returning="NONE"), Written)


async def cancel_all_unclaimed(
    table: Table, chunks: Sequence[Chunk], now: float
) -> list[Chunk]:
    """Cancel up to 100 chunks at once; return those that have changed since the read.

    A transaction costs two write units for each chunk, and one request for all.
    """
    todo, changed = list(chunks), list[Chunk]()
    while todo:
        reply = await table.transact([cancelling(table, chunk, now) for chunk in todo])
        if isinstance(reply, Written):
            break
        changed += [chunk for i, chunk in enumerate(todo) if i in reply.refused]
        todo = [chunk for i, chunk in enumerate(todo) if i not in reply.refused]
    return changed


def cancelling(table: Table, chunk: Chunk, now: float) -> ItemWrite:
    """Return the write that cancels a chunk without an owner.

    It records a lost claim, as `Takeovers.release_expired` does. Only the journal pages
    of that claim say what it paid for.
    """
    running = chunk.status is ChunkStatus.RUNNING
    lost, values = "", dict[str, Any]()
    if running:
        lost = ", lost_at = if_not_exists(stage, :no_stage) ADD lost_fences :lost"
        values = {"renewals": chunk.renewal_mark[1]}
        values |= {"lost": {chunk.fence}, "no_stage": ""}
    return table.item_write(
        "Update",
        chunk.ref.pk,
        chunk.ref.sk,
        condition=f"{UNCLAIMED} AND {NOT_RENEWED_SINCE}" if running else UNCLAIMED,
        update="SET #status = :cancelled, ended_at = :now, cancelled_at_stage = :at"
        f"{lost} REMOVE claimed_by, claim_expires_at, claim_usage, claim_token,"
        f" redispatch_at, {WAIT}",
        values={
            "seen": chunk.status,
            "gen": chunk.gen,
            "fence": chunk.fence,
            "cancelled": ChunkStatus.CANCELLED,
            "at": cancelled_at_stage(chunk.stage),
            "now": iso(now),
            **values,
        },
    )


async def request_cancel(table: Table, chunk: Chunk, request: CancelRequest) -> bool:
    """Request the owner of a RUNNING chunk to stop; no later claim succeeds."""
    assignments, values = cancel_assignments(request)
    write = table.item_write(
        "Update",
        chunk.ref.pk,
        chunk.ref.sk,
        condition=RUNNING_IN_THIS_GEN,
        update=f"SET {assignments}",
        values={"running": ChunkStatus.RUNNING, "gen": chunk.gen, **values},
    )
    return isinstance(await table.update(write, returning="NONE"), Written)


async def request_compensation(
    table: Table, chunk: Chunk, request: CancelRequest, redispatch_at: float
) -> bool:
    """Request the next worker that claims a PENDING or WAITING chunk to compensate it.

    The chunk is due at once, not at `retry_at`. If its message is lost, the reconciler
    sends it again at `redispatch_at`.
    """
    assignments, values = cancel_assignments(request)
    write = table.item_write(
        "Update",
        chunk.ref.pk,
        chunk.ref.sk,
        condition=UNCLAIMED,
        update=f"SET {assignments}, redispatch_at = :due REMOVE {WAIT}",
        values={
            "seen": chunk.status,
            "gen": chunk.gen,
            "fence": chunk.fence,
            "due": iso(redispatch_at),
            **values,
        },
    )
    return isinstance(await table.update(write, returning="NONE"), Written)


def cancel_assignments(request: CancelRequest) -> tuple[str, dict[str, Any]]:
    """Return the assignments of a cancel request, and their values."""
    if request.compensate:
        assignments = "cancel_requested_at = :requested, compensate_requested = :yes"
        return assignments, {"requested": request.at, "yes": True}
    return "cancel_requested_at = :requested", {"requested": request.at}


def cancelled_at_stage(stage: str) -> str:
    """Return the stored text of the stage at which a chunk was cancelled."""
    return f"cancelled-at-stage-{stage}"


# ── set the direction of a chunk without an owner ─────────────────────────────
#
# Before its pivot the chunk compensates: a COMPENSATION row has the reason, and the
# next claim runs the compensation. After its pivot it only goes forward. At its pivot
# the ledger decides, which only the next claim reads.

#: Values of `direction`; a chunk without it goes forward and may still be cancelled.
COMPENSATING, FORWARD = "compensating", "forward"
#: The chunk waits at its pivot, and goes on there. The first intent of the pivot is
#: refused, and the chunk compensates, unless an earlier claim has written one.
AT_PIVOT = "pivot"


async def set_direction(
    table: Table,
    chunk: Chunk,
    failure: ErrorEnvelope | None,
    otherwise: str = FORWARD,
) -> bool:
    """Move PENDING | WAITING -> WAITING.

    With `failure`, the reason, it compensates; without one it has the direction
    `otherwise`. It may be claimed at once.
    """
    code = {"code": failure.code} if failure else {}
    update = table.item_write(
        "Update",
        chunk.ref.pk,
        chunk.ref.sk,
        condition=UNCLAIMED,
        update="SET #status = :waiting, direction = :direction"
        + (", error_code = :code" if failure else "")
        + f" REMOVE {WAIT}",
        values={
            "seen": chunk.status,
            "gen": chunk.gen,
            "fence": chunk.fence,
            "waiting": ChunkStatus.WAITING,
            "direction": COMPENSATING if failure else otherwise,
            **code,
        },
    )
    if failure is None:
        return isinstance(await table.update(update, returning="NONE"), Written)
    row = compensation_put(
        table, chunk.ref, chunk.gen, chunk.stage, failure, chunk.expires_at
    )
    return isinstance(await table.transact([update, row]), Written)


def compensation_put(
    table: Table,
    ref: ChunkRef,
    gen: int,
    stage: str,
    failure: ErrorEnvelope,
    expires_at: int | None,
    *,
    calls_gen: int | None = None,
) -> ItemWrite:
    """Return the write of the reason and the stage of a compensation.

    `expires_at`: that of the chunk. `calls_gen`: the generation in the keys of its
    calls; None: the chunk's own.
    """
    sk = keys.compensation_sk(ref.chunk, gen)
    error = failure.model_dump_json(exclude_none=True)
    item = {"stage": stage, "error": error, "calls_gen": calls_gen}
    item["expires_at"] = expires_at
    return table.item_write("Put", ref.pk, sk, item=item)
