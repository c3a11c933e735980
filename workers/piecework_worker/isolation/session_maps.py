"""The `ctx.map`s of one run in a child process, from the worker's side."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from piecework.context import Context
from piecework.domain.map_rows import MapRows
from piecework.domain.protocols import ChildResults
from piecework.errors import UsageError
from piecework_worker.isolation.child_maps import end_text, inputs_of, page_of
from piecework_worker.isolation.messages import MapEnd, MapPart, MapRead


@dataclass(slots=True)
class SessionMaps:
    """The rows that a run maps, and what it reads of them, by number."""

    ctx: Context[Any]
    parts: dict[int, MapRows] = field(default_factory=dict)
    ended: dict[int, ChildResults] = field(default_factory=dict)
    readers: dict[int, AsyncIterator[Any]] = field(default_factory=dict)

    def add(self, part: MapPart) -> None:
        """Spool some rows."""
        if part.call not in self.parts:
            with suppress(UsageError):  # `answer` raises it
                pipeline = self.ctx.caller.children.pipeline_of(part.pipeline)
                self.parts[part.call] = MapRows(pipeline)
        if (rows := self.parts.get(part.call)) is not None:
            for row in inputs_of(part.rows):
                rows.write(row, hashlib.sha256())

    async def answer(self, asked: MapEnd | MapRead) -> str:
        """Return the end of a child job, or a page of what its rows have become.

        Raises:
            WaitRequestedError: The child has not ended.
            PieceworkError: As `Children.find`.
        """
        if isinstance(asked, MapRead):
            return await self.page(asked)
        caller = self.ctx.caller
        caller.children.pipeline_of(asked.pipeline)
        rows = self.parts[asked.call]
        rows.digest = asked.digest
        job, end = await caller.map(self.ctx.scope, rows)
        self.ended[asked.call] = end.stored
        return end_text(job, end)

    async def page(self, asked: MapRead) -> str:
        """Return the next page of a reading; the stage makes progress by it."""
        reader = self.readers.get(asked.reader)
        if reader is None:
            stored = self.ended[asked.of]
            items = stored.failures() if asked.failures else stored.results()
            reader = self.readers[asked.reader] = aiter(items)
        page = await page_of(reader)
        self.ctx.caller.note_read(page)
        return page

    def close(self) -> None:
        """Forget the rows."""
        for rows in self.parts.values():
            rows.close()
