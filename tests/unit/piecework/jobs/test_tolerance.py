"""Chunks of a stopped job are cancelled in batches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from piecework.domain.chunk import Chunk
from piecework.domain.refs import JobRef
from piecework.jobs import tolerance
from piecework.jobs.tolerance import CHUNKS_AT_ONCE

JOB = JobRef("default", "job-1")


@pytest.mark.parametrize("count", [1, CHUNKS_AT_ONCE + 1])
async def test_each_chunk_of_a_stopped_job_is_in_one_transaction(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    asked: list[Chunk] = []

    async def cancel(_: Any, some: list[Chunk], __: float) -> list[Chunk]:
        asked.extend(some)
        return []

    monkeypatch.setattr(tolerance, "cancel_all_unclaimed", cancel)
    runtime: Any = SimpleNamespace(table=None, clock=lambda: 0.0)
    item = {"gen": 1, "status": "PENDING"}
    chunks = [Chunk.read(JOB.chunk(n), item) for n in range(count)]

    assert count == await tolerance.cancel_all_unstarted(runtime, chunks)
    assert chunks == asked
