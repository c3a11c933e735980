"""Where the result of a chunk lies: on its own item, or in a row beside it.

A small one is written by the very update that ends the chunk. A row beside it would
need a transaction of two, whose writes are billed twice: four units instead of one, and
more than the claim and the end together. In a later life of the chunk a row may be left
from an earlier one, so that there the row is written as ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from piecework import keys
from piecework.claim import Claim
from piecework.model import Chunk, ChunkStatus
from piecework.store.table import Item, Table

#: What a stage that returned nothing has as its value, which is not written at all.
NULL = "null"
NULL_SHA256 = keys.sha256(NULL.encode())
#: Bytes of a result on its chunk's item, which every look at the chunks reads, too.
INLINE_BYTES = 1024
#: Results that are read one by one; for more, those of the whole group are.
ONE_BY_ONE = 16


def fits_inline(claim: Claim, value: str) -> bool:
    """Say whether a chunk that ends with this result is to have it on its own item."""
    first_life = claim.gen == 1 and not claim.ref.is_join
    return first_life and value != NULL and len(value.encode()) <= INLINE_BYTES


def is_inline(chunk: Chunk) -> bool:
    """Say whether a chunk has its result on its own item."""
    return "value" in chunk.item


async def stored_results(
    table: Table, pk: str, chunks: Sequence[Chunk]
) -> list[tuple[Chunk, Item | None]]:
    """Return chunks of one group, each with the item that holds its result.

    None: it has none, or it is null. The chunks must have been read before: one that
    has succeeded has its result.
    """
    beside = [chunk for chunk in chunks if is_separate(chunk)]
    rows = await rows_of(table, pk, beside)
    return [(c, holder(c, rows.get(keys.result_sk(c.ref.chunk)))) for c in chunks]


def holder(chunk: Chunk, row: Item | None) -> Item | None:
    """Return the item that holds a chunk's result: its own, or the row beside it."""
    return dict(chunk.item) if is_inline(chunk) else row


def is_separate(chunk: Chunk) -> bool:
    """Say whether a chunk has its result in a row of its own."""
    succeeded = chunk.status is ChunkStatus.SUCCEEDED
    written = chunk.item.get("result_sha256") != NULL_SHA256
    return succeeded and written and not is_inline(chunk)


async def rows_of(table: Table, pk: str, chunks: Sequence[Chunk]) -> dict[str, Item]:
    """Return the rows of results, by their sort keys."""
    if len(chunks) > ONE_BY_ONE:
        return {row["sk"]: row async for row in table.query(pk, keys.RESULT_PREFIX)}
    sks = [keys.result_sk(chunk.ref.chunk) for chunk in chunks]
    rows = await asyncio.gather(*(table.get(pk, sk) for sk in sks))
    return {sk: row for sk, row in zip(sks, rows, strict=True) if row}
