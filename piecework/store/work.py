"""Read everything that earlier claims wrote about a chunk."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from piecework import keys
from piecework.model import ChunkRef
from piecework.store.table import Item, Table


@dataclass(frozen=True, slots=True)
class Work:
    """The rows of a chunk, by the last part of their sort key, and its result."""

    rows: dict[str, Item]
    result: Item | None

    def kind(self, kind: str) -> list[Item]:
        """Return the rows of a kind (such as CALLS, EFFECT or ERROR) in key order."""
        return [row for name, row in self.rows.items() if name.startswith(f"{kind}#")]


async def read_work(table: Table, ref: ChunkRef) -> Work:
    """Read the rows of a chunk, strongly consistent."""
    prefix = keys.work_prefix(ref.chunk)

    async def rows() -> dict[str, Item]:
        items = table.query(ref.pk, prefix)
        return {item["sk"].removeprefix(prefix): item async for item in items}

    found, result = await asyncio.gather(
        rows(), table.get(ref.pk, keys.result_sk(ref.chunk))
    )
    return Work(found, result)
