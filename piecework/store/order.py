"""The writes that keep the chunks of an order key in their order.

A chunk with an order key knows the chunk before it (`blocked_by`) and the chunk after
it (`followed_by`). No claim takes a chunk with `blocked_by`, and one write removes it:
after the chunk before it has settled. That chunk has a result, or an operator has
skipped it. Neither ever changes, so a late copy of the write does no harm.

A chunk that ended in another way stops its key. Once no other chunk of the job is left,
the chunks behind it end, too. An operator reopens or skips it when the cause is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from piecework.domain.chunk import Chunk
from piecework.domain.moments import iso
from piecework.domain.outcome import STOPPED_CODE
from piecework.domain.refs import ChunkRef
from piecework.domain.states import ChunkStatus
from piecework.store.cancellation import cancelled_at_stage
from piecework.store.table import ItemWrite, Table, Written
from piecework.store.takeovers import AS_READ

#: Its key is still at the chunk that the writer has read.
BLOCKED_BY_IT: Final = "blocked_by = :before"
#: The chunk before it still stops the key: it was neither reopened nor skipped.
STOPS_ITS_KEY: Final = (
    "#status IN (:dead, :cancelled) AND attribute_not_exists(skipped_at)"
)
#: The dead letter that the operator has read is the last word about the chunk.
DEAD_AS_READ: Final = "#status = :dead AND gen = :gen"


def allows_next(chunk: Chunk) -> bool:
    """Return whether the next chunk of its order key may run; this never changes back.

    A result is never discarded, and a skipped chunk is never reopened.
    """
    return chunk.status is ChunkStatus.SUCCEEDED or chunk.is_skipped


async def unblock(
    table: Table, ref: ChunkRef, before: int, redispatch_at: float
) -> Chunk | None:
    """Unblock a chunk, whatever its status, because chunk `before` has settled.

    Return the chunk; None: another process was faster. If the message of the chunk is
    lost, the reconciler sends it again at `redispatch_at`.
    """
    due = iso(redispatch_at)
    write = table.item_write(
        "Update",
        ref.pk,
        ref.sk,
        condition=BLOCKED_BY_IT,
        update="SET redispatch_at = if_not_exists(redispatch_at, :due)"
        " REMOVE blocked_by",
        values={"before": before, "due": due},
    )
    reply = await table.update(write)
    item = reply.item or {}
    # Refused by our own write: the SDK sent it twice, and lost the first answer.
    ours = "blocked_by" not in item and item.get("redispatch_at") == due
    return Chunk.read(ref, item) if isinstance(reply, Written) or ours else None


def skipping(table: Table, ref: ChunkRef, gen: int, now: float) -> ItemWrite:
    """Return the write that skips a dead chunk, for the discard of its dead letter."""
    return table.item_write(
        "Update",
        ref.pk,
        ref.sk,
        condition=DEAD_AS_READ,
        update="SET skipped_at = :now",
        values={"dead": ChunkStatus.DEAD, "gen": gen, "now": iso(now)},
    )


async def end_stopped(table: Table, chunks: Sequence[Chunk], now: float) -> int:
    """Move PENDING -> CANCELLED: up to 50 chunks of stopped keys; return how many.

    A chunk that was unblocked since it was read stays as it is. So does a chunk of a
    key that is not stopped any more. All chunks of such a key stay: the key goes on.
    """
    todo = list(chunks)
    while todo:
        numbers = {chunk.ref.chunk for chunk in todo}
        heads = [chunk for chunk in todo if chunk.blocked_by not in numbers]
        endings = [_ending(table, chunk, now) for chunk in todo]
        checks = [_stopping(table, chunk) for chunk in heads]
        reply = await table.transact(endings + checks)
        if isinstance(reply, Written):
            break
        written = [*todo, *heads]
        going = {written[place].order_key for place in reply.refused}
        todo = [chunk for chunk in todo if chunk.order_key not in going]
    return len(todo)


def _stopping(table: Table, chunk: Chunk) -> ItemWrite:
    """Return the check that the chunk before this one stops their key."""
    before = chunk.ref.of.chunk(chunk.blocked_by or 0)
    return table.item_write(
        "ConditionCheck",
        before.pk,
        before.sk,
        condition=STOPS_ITS_KEY,
        values={"dead": ChunkStatus.DEAD, "cancelled": ChunkStatus.CANCELLED},
    )


def _ending(table: Table, chunk: Chunk, now: float) -> ItemWrite:
    return table.item_write(
        "Update",
        chunk.ref.pk,
        chunk.ref.sk,
        condition=f"{AS_READ} AND {BLOCKED_BY_IT}",
        update="SET #status = :cancelled, ended_at = :now, cancelled_at_stage = :at,"
        " error_code = :code REMOVE redispatch_at, retry_at",
        values={
            "seen": chunk.status,
            "gen": chunk.gen,
            "fence": chunk.fence,
            "before": chunk.blocked_by,
            "cancelled": ChunkStatus.CANCELLED,
            "at": cancelled_at_stage(chunk.stage),
            "code": STOPPED_CODE,
            "now": iso(now),
        },
    )
