"""Resolve an effect whose outcome is unknown, as an operator found it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.rows import EffectRow
from piecework.domain.states import ChunkStatus
from piecework.store.effects import DONE, IN_PROGRESS, INTENT, REFUSED, UNKNOWN
from piecework.store.reopen import ENDED_AS_READ
from piecework.store.table import ItemWrite, Table, Written

#: A chunk with a result may have left an effect that its stage did not wait for.
ENDED = "#status = :seen AND #status IN (:dead, :cancelled, :succeeded) AND gen = :gen"
#: A complete stage has used the answer, and does not run again.
AT_ITS_STAGE = f"{ENDED_AS_READ} AND stage = :at"

#: An effect that began again, or whose worker reported its end, has another time.
RESOLVED_AS_READ = (
    "#state IN (:done, :refused) AND resolved_at = :read AND ended_at = :read"
)


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
    table: Table,
    chunk: Chunk,
    row: EffectRow,
    resolution: Resolution,
    job: Job | None = None,
) -> bool:
    """Resolve an effect in doubt of an ended chunk; False: the state has changed.

    Chunk and job then count one effect in doubt less, if they count it.
    """
    doubtful = {"intent": INTENT, "unknown": UNKNOWN}
    counted = chunk.effects_in_doubt > 0
    check = _on_ended(
        table,
        chunk,
        condition=ENDED,
        update="SET effects_in_doubt = effects_in_doubt - :one" if counted else "",
        succeeded=ChunkStatus.SUCCEEDED,
        **({"one": 1} if counted else {}),
    )
    write = _resolving(table, chunk, row, resolution, condition=IN_PROGRESS, **doubtful)
    also = [_one_less(table, job)] if counted and job and job.effects_in_doubt else []
    return isinstance(await table.transact([check, write, *also]), Written)


def _one_less(table: Table, job: Job) -> ItemWrite:
    """Return the write that counts one effect in doubt of a job less."""
    return table.item_write(
        "Update",
        job.ref.pk,
        keys.META_SK,
        condition="effects_in_doubt > :zero AND gen = :gen",
        update="SET effects_in_doubt = effects_in_doubt - :one",
        values={"zero": 0, "one": 1, "gen": job.gen},
    )


async def correct_effect(
    table: Table, chunk: Chunk, row: EffectRow, resolution: Resolution
) -> bool:
    """Move DONE -> REFUSED, or back, or give DONE another answer.

    False: the chunk is not at the stage of the call, or the state has changed. A chunk
    is at a stage, never at its compensation. So the resolution of an effect of a
    compensation is final.
    """
    resolved = {"done": DONE, "refused": REFUSED, "read": row.resolved_at}
    check = _on_ended(table, chunk, condition=AT_ITS_STAGE, at=row.stage)
    write = _resolving(
        table, chunk, row, resolution, condition=RESOLVED_AS_READ, **resolved
    )
    return isinstance(await table.transact([check, write]), Written)


def _on_ended(
    table: Table, chunk: Chunk, *, condition: str, update: str = "", **compared: Any
) -> ItemWrite:
    return table.item_write(
        "Update" if update else "ConditionCheck",
        chunk.ref.pk,
        chunk.ref.sk,
        condition=condition,
        **({"update": update} if update else {}),
        values={
            "seen": chunk.status,
            "dead": ChunkStatus.DEAD,
            "cancelled": ChunkStatus.CANCELLED,
            "gen": chunk.gen,
            **compared,
        },
    )


def _resolving(
    table: Table,
    chunk: Chunk,
    row: EffectRow,
    resolution: Resolution,
    *,
    condition: str,
    **compared: str,
) -> ItemWrite:
    """Return the write of a resolution; no answer of an earlier one stays."""
    facts = {
        "state": REFUSED if resolution.answer is None else DONE,
        "ended_at": resolution.at,
        "resolved_at": resolution.at,
        "resolved_by": resolution.actor,
        "resolve_reason": resolution.reason,
        **(resolution.answer or {}),
    }
    stale = ["value", "value_at", "value_sha256"]
    return table.item_write(
        "Update",
        chunk.ref.pk,
        keys.effect_sk(chunk.ref.chunk, row.key),
        condition=condition,
        update="SET "
        + ", ".join(f"#{name} = :{name}" for name in facts)
        + " REMOVE "
        + ", ".join(f"#{name}" for name in stale if name not in facts),
        values={**compared, **facts},
    )
