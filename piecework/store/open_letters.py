"""The list of open dead letters by their time: what the alarms are read from.

A mark is put with its letter and deleted with the move that closes it, so that it
tells what is open without a look at the letters themselves.
"""

from __future__ import annotations

from typing import Any

from piecework import keys
from piecework.store.table import Action, Item, Table


def open_mark(table: Table, letter: dict[str, Any], kind: str) -> Action:
    """Return the `Put` or `Delete` of the mark of a letter."""
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
    """Return the marks of the letters that were written last, the newest first."""
    return await table.first(keys.open_letters_pk(tenant), count, backwards=True)


async def oldest(table: Table, tenant: str) -> Item | None:
    """Return the mark of the letter that has been open for longest."""
    found = await table.first(keys.open_letters_pk(tenant), 1)
    return found[0] if found else None
