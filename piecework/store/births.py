"""The items that are created together with others: chunks, marks and events."""

from __future__ import annotations

from typing import Any

from piecework import keys
from piecework.model import ChunkRef, ChunkStatus, JobRef, iso
from piecework.store.table import Action, Table


def new_chunk(ref: ChunkRef, gen: int, facts: dict[str, Any]) -> dict[str, Any]:
    """Return the item of a chunk that was never claimed."""
    return {
        "status": ChunkStatus.PENDING,
        "gen": gen,
        "job": ref.job,
        "chunk": ref.chunk,
        "fence": 0,
        "attempts": 0,
        **facts,
    }


def active_mark(table: Table, ref: JobRef, kind: str) -> Action:
    """Return the `Put` or `Delete` of the mark that lists an active job."""
    item = {"tenant": ref.tenant, "job": ref.job} if kind == "Put" else None
    return table.action(
        kind, keys.ACTIVE_PK, keys.active_sk(ref.tenant, ref.job), item=item
    )


def event_put(
    table: Table, ref: JobRef, event: str, now: float, facts: dict[str, Any]
) -> Action:
    """Return the write of an event of a job, with its time and its actor."""
    at, token = iso(now), f"{table.rng.getrandbits(32):08x}"
    return table.action(
        "Put",
        ref.pk,
        f"{keys.EVENT_PREFIX}{at}#{event}#{token}",
        condition="attribute_not_exists(pk)",
        item={"event": event, "at": at, **facts},
    )
