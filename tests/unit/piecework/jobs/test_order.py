"""Keys that wait in vain go on."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.domain.chunk import Chunk
from piecework.domain.refs import ChunkRef, JobRef
from piecework.jobs import order

JOB = JobRef("default", "job-1")


async def test_each_key_that_waits_in_vain_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def read_chunk(_: Any, ref: ChunkRef) -> Chunk:
        return Chunk.read(ref, {"gen": 1, "status": "SUCCEEDED"})

    async def unblock_next(_: Any, settled: Chunk) -> Chunk:
        item = {"gen": 1, "status": "PENDING"}
        return Chunk.read(JOB.chunk(settled.ref.chunk + 2), item)

    monkeypatch.setattr(order, "read_chunk", read_chunk)
    monkeypatch.setattr(order, "unblock_next", unblock_next)
    runtime: Any = type("Deployment", (), {"table": None})
    blocked = order.BlockedChunks(blocked={0: 2, 1: 3})

    found = await blocked.repair(runtime, JOB)

    assert {2, 3} == {chunk.ref.chunk for chunk in found}
