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
    """What became of an effect, and on whose word.

    Attributes:
        answer: Where the answer lies, as `Objects.stow` says; None: it did not happen.
    """

    actor: str
    reason: str
    at: str
    answer: Mapping[str, str] | None


async def resolve_effect(
    table: Table, chunk: Chunk, effect_key: str, finding: Resolution
) -> bool:
    """Settle an effect in doubt of a chunk that has ended and that nobody works on."""
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
        "state": REFUSED if finding.answer is None else DONE,
        "ended_at": finding.at,
        "resolved_by": finding.actor,
        "resolve_reason": finding.reason,
        **(finding.answer or {}),
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
