"""The place of a chunk's result: on the chunk's item, or in a separate row.

A small result is written by the update that ends the chunk. A separate row needs a
transaction of two writes, which DynamoDB bills twice: a result of 3 KB costs ten units
instead of four. The result of a join has a row: its end is a transaction anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.refs import ChunkRef
from piecework.domain.rows import StageRow
from piecework.domain.states import ChunkStatus
from piecework.store.table import Item, Table

#: The value of a stage that returned nothing; it is not written.
NULL = "null"
NULL_SHA256 = keys.sha256(NULL.encode())
#: Maximum bytes of an inline result, which every snapshot of the job reads too.
INLINE_BYTES = 8 * 1024
#: Up to so many results are read one by one; for more, the whole partition is read.
ONE_BY_ONE = 16


def fits_inline(ref: ChunkRef, value: str) -> bool:
    """Return whether this result is stored on the chunk's item, or is `null`."""
    return not ref.is_join and len(value.encode()) <= INLINE_BYTES


def is_inline(chunk: Chunk) -> bool:
    """Return whether the result is stored on the chunk's item."""
    return "value" in chunk.item


async def stored_results(
    table: Table, pk: str, chunks: Sequence[Chunk]
) -> list[tuple[Chunk, StageRow | None]]:
    """Return chunks of one partition, each with its result.

    None: the chunk has no result, or the result is null. Read the chunks first: a chunk
    that has succeeded has its result.
    """
    separate = [chunk for chunk in chunks if is_separate(chunk)]
    rows = await rows_of(table, pk, separate)
    return [(c, result_row(c, rows.get(keys.result_sk(c.ref.chunk)))) for c in chunks]


def result_row(chunk: Chunk, row: Item | None) -> StageRow | None:
    """Return a chunk's result, from the chunk's item or from the separate row."""
    if is_inline(chunk):
        made = chunk.stages.get(chunk.result_stage, chunk.item)
        return StageRow({**chunk.item, "code_version": made.get("code_version")})
    return None if row is None else StageRow(row)


def is_separate(chunk: Chunk) -> bool:
    """Return whether the result is stored in a separate row."""
    succeeded = chunk.status is ChunkStatus.SUCCEEDED
    written = chunk.result_sha256 != NULL_SHA256
    return succeeded and written and not is_inline(chunk)


async def rows_of(table: Table, pk: str, chunks: Sequence[Chunk]) -> dict[str, Item]:
    """Return the separate result rows by sort key."""
    if len(chunks) > ONE_BY_ONE:
        return {row["sk"]: row async for row in table.query(pk, keys.RESULT_PREFIX)}
    sks = [keys.result_sk(chunk.ref.chunk) for chunk in chunks]
    rows = await asyncio.gather(*(table.get(pk, sk) for sk in sks))
    return {sk: row for sk, row in zip(sks, rows, strict=True) if row}
