"""`ctx.map` of a stage in a child process: rows go to the worker, pages come back.

The worker starts the child job and reads the outcome of its rows. So neither side
has more than a page of them in memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from pydantic_core import from_json, to_json

from piecework.domain.chunk_input import ChunkInput
from piecework.domain.map_rows import MapRows
from piecework.domain.protocols import ChildEnd, RowFailure, StoredResult
from piecework_worker.isolation.messages import Row

T = TypeVar("T")

#: Bytes of a message with rows or results, about.
PAGE_BYTES = 256 * 1024


async def parts_of(rows: MapRows) -> AsyncIterator[list[Row]]:
    """Yield the rows in parts of about `PAGE_BYTES`."""
    part, size = list[Row](), 0
    async for row in rows.inputs():
        part.append((row.label, row.order_key, row.payload.decode()))
        size += len(row.payload)
        if size >= PAGE_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def inputs_of(part: list[Row]) -> Iterator[ChunkInput]:
    """Yield the rows of a part as inputs of chunks."""
    for label, order_key, payload in part:
        yield ChunkInput(label, payload.encode(), order_key)


# ── what the worker answers ───────────────────────────────────────────────────


def end_text(job: str, end: ChildEnd) -> str:
    """Return the end of a child job as JSON."""
    return to_json([job, end.status, end.succeeded]).decode()


async def page_of(items: AsyncIterator[Any]) -> str:
    """Return the next items of a reading as JSON; `[]`: there is none left."""
    page, size = list[Any](), 0
    async for item in items:
        facts = asdict(item)
        page.append(facts)
        size += len(str(facts.get("value", "")))
        if size >= PAGE_BYTES:
            break
    return to_json(page).decode()


# ── what the child makes of it ────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class PagedResults:
    """What the rows of a child job have become, as the worker reads it.

    Attributes:
        read: Returns the next page of a reading. Its arguments are the number of that
            reading, 0 for a new one, and whether it is of failures.
    """

    read: Callable[[int, bool], Awaitable[tuple[int, str]]]

    async def results(self) -> AsyncIterator[StoredResult]:
        """Yield the results of the rows that have one, in order."""
        async for facts in self._items(failures=False):
            yield StoredResult(**facts)

    async def failures(self) -> AsyncIterator[RowFailure]:
        """Yield the rows without a result, in order."""
        async for facts in self._items(failures=True):
            yield RowFailure(**facts)

    async def _items(self, *, failures: bool) -> AsyncIterator[dict[str, Any]]:
        reader, text = await self.read(0, failures)
        while page := from_json(text):
            for facts in page:
                yield facts
            reader, text = await self.read(reader, failures)


def read_end(text: str, stored: PagedResults) -> tuple[str, ChildEnd]:
    """Return the id and the end of a child job from JSON."""
    job, status, succeeded = from_json(text)
    return job, ChildEnd(status, succeeded, stored)
