"""A table that keeps what it is asked to write and answers as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from piecework.aws.objects import Objects
from piecework.domain.chunk import Chunk
from piecework.domain.claim import Claim
from piecework.domain.refs import ChunkRef
from piecework.store.table import Item, ItemWrite, Refused, Table, Written
from tests.unit.piecework.bucket import Bucket

REF = ChunkRef("acme", "job", 3)
NOW = 1_700_000_000.0


@dataclass(slots=True)
class Paper(Table):
    """Answers each write with the next reply, or as if its condition held."""

    replies: list[Any] = field(default_factory=list)
    written: list[tuple[ItemWrite, ...]] = field(default_factory=list)

    async def update(
        self, action: ItemWrite, returning: str = "ALL_NEW"
    ) -> Written | Refused:
        del returning
        await asyncio.sleep(0)
        return self.answer(action)

    async def put(self, action: ItemWrite) -> Written | Refused:
        await asyncio.sleep(0)
        return self.answer(action)

    async def transact(self, actions: Sequence[ItemWrite]) -> Written | Refused:
        return self.answer(*actions)

    def answer(self, *actions: ItemWrite) -> Written | Refused:
        self.written.append(actions)
        reply = self.replies.pop(0) if self.replies else Written({})
        if isinstance(reply, Exception):
            raise reply
        return reply  # type: ignore[no-any-return]

    def items(self) -> list[Item]:
        """Return the items that were put."""
        return [dict(a.item) for actions in self.written for a in actions if a.item]


def paper(*replies: Any) -> Paper:
    return Paper(None, "table", Random(1), list(replies))  # type: ignore[arg-type]


def claim(*, gen: int = 1, fence: int = 1, ref: ChunkRef = REF, **facts: Any) -> Claim:
    item = {"status": "RUNNING", "gen": gen, "fence": fence, "attempts": 1, **facts}
    return Claim(ref, gen, fence, "token", "worker", Chunk.read(ref, item))


def objects() -> Objects:
    return Objects(Bucket(), "bucket")  # type: ignore[arg-type]
