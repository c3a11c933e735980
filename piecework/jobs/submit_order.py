"""The order of a submit's chunks: which chunk comes before and after which in its key.

The chunk before it is known when a chunk is read, the chunk after it only later. So the
lines of the manifest are spooled without it, and copied with it at the end. In memory
are one entry for each key, and four bytes for each chunk.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import IO

from piecework.domain import keys
from piecework.domain.priority import FIRST_CHUNKS
from piecework.domain.refs import JobRef
from piecework.jobs.manifest import Entry

NO_CHUNK = -1


@dataclass(slots=True)
class SubmitOrder:
    """The order keys of the chunks of a submit.

    Attributes:
        heads: The first chunks that wait for no other; one more than a submit sends.
    """

    ref: JobRef
    heads: list[int] = field(default_factory=list)
    _last: dict[str, int] = field(default_factory=dict)
    _followed_by: array[int] = field(default_factory=lambda: array("i"))

    @property
    def has_keys(self) -> bool:
        """Whether a chunk has an order key."""
        return bool(self._last)

    def add(self, chunk: int, order_key: str) -> tuple[str, int | None]:
        """Add the next chunk; return the hash of its key, and the chunk before it."""
        self._followed_by.append(NO_CHUNK)
        stored = (
            keys.order_key(self.ref.tenant, self.ref.job, order_key)
            if order_key
            else ""
        )
        before = self._last.get(stored) if stored else None
        if before is not None:
            self._followed_by[before] = chunk
        elif len(self.heads) <= FIRST_CHUNKS:
            self.heads.append(chunk)
        if stored:
            self._last[stored] = chunk
        return stored, before

    @contextmanager
    def completed(self, spool: IO[bytes]) -> Iterator[IO[bytes]]:
        """Return the spooled lines, each with the chunk that follows in its key."""
        if not self.has_keys:
            yield spool
            return
        with tempfile.TemporaryFile() as copy:
            spool.seek(0)
            for line, after in zip(spool, self._followed_by, strict=True):
                followed_by = None if after == NO_CHUNK else after
                entry = replace(Entry.read(line[:-1]), followed_by=followed_by)
                copy.write(entry.line())
            yield copy
