"""What a person found out about an effect in doubt: it stands, or it does not.

INTENT | UNKNOWN -> DONE       it happened; the stage goes on with the given answer
INTENT | UNKNOWN -> REFUSED    it did not; the next life begins it with a fresh key
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from piecework import keys
from piecework.model import Chunk, ChunkStatus
from piecework.store.ledger import DONE, IN_PROGRESS, INTENT, REFUSED, UNKNOWN
from piecework.store.reopen import ENDED_AS_READ
from piecework.store.table import Table, Written


@dataclass(frozen=True, slots=True)
class Resolution:
    """An operator's decision on an effect in doubt.

    Attributes:
        answer: The attributes of `Objects.put_value` with the answer; None: it did not
            happen.
    """

    actor: str
    reason: str
    at: str
    answer: Mapping[str, str] | None


async def resolve_effect(
    table: Table, chunk: Chunk, effect_key: str, resolution: Resolution
) -> bool:
    """Resolve an effect in doubt of an ended chunk; False: the state has changed."""
    check = table.action(
        "ConditionCheck",
        chunk.ref.pk,
        chunk.ref.sk,
        condition=ENDED_AS_READ,
        values={
            "seen": chunk.status,
            "dead": ChunkStatus.DEAD,
            "cancelled": ChunkStatus.CANCELLED,
            "gen": chunk.gen,
        },
    )
    facts = {
        "state": REFUSED if resolution.answer is None else DONE,
        "ended_at": resolution.at,
        "resolved_by": resolution.actor,
        "resolve_reason": resolution.reason,
        **(resolution.answer or {}),
    }
    settle = table.action(
        "Update",
        chunk.ref.pk,
        keys.effect_sk(chunk.ref.chunk, effect_key),
        condition=IN_PROGRESS,
        update="SET " + ", ".join(f"#{name} = :{name}" for name in facts),
        values={"intent": INTENT, "unknown": UNKNOWN, **facts},
    )
    return isinstance(await table.transact([check, settle]), Written)
