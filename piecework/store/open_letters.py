"""The index of open dead letters by time, from which the alarms are evaluated.

A mark is written with its dead letter and deleted with the write that closes it. So the
reconciler finds the open dead letters without a scan.
"""

from __future__ import annotations

from typing import Any

from piecework import keys
from piecework.store.table import Action, Item, Table


def open_mark(table: Table, letter: dict[str, Any], kind: str) -> Action:
    """Return the `Put` or `Delete` of the mark of a dead letter."""
    names = ("tenant", "job", "chunk", "gen", "dead_lettered_at", "expires_at")
    facts = {name: letter[name] for name in names if name in letter}
    tenant, job = letter["tenant"], letter["job"]
    return table.action(
        kind,
        keys.open_letters_pk(tenant),
        keys.open_letter_sk(
            letter["dead_lettered_at"], job, letter["chunk"], letter["gen"]
        ),
        item={"kind": "open", **facts} if kind == "Put" else None,
    )


async def newest(table: Table, tenant: str, count: int) -> list[Item]:
    """Return the marks of the last written dead letters, the newest first."""
    return await table.first(keys.open_letters_pk(tenant), count, backwards=True)


async def oldest(table: Table, tenant: str) -> Item | None:
    """Return the mark of the dead letter that has been open for longest."""
    found = await table.first(keys.open_letters_pk(tenant), 1)
    return found[0] if found else None
