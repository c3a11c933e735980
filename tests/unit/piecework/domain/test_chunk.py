from __future__ import annotations

import pytest

from piecework.domain.chunk import Chunk
from piecework.domain.refs import ChunkRef, JobRef
from piecework.errors import PermanentError


def test_a_chunk_knows_its_job_and_its_place() -> None:
    ref = JobRef("acme", "j").chunk(300)
    assert ref.of == JobRef("acme", "j")
    assert (ref.pk, ref.sk) == ("T#acme#J#j#G#0001", "CHUNK#00000300")
    assert str(ref) == "j/300"


def test_an_unknown_state_is_refused() -> None:
    with pytest.raises(
        PermanentError, match="chunk j/0 has a missing or malformed 'status'"
    ):
        Chunk.read(ChunkRef("a", "j", 0), {"status": "LOST", "gen": 1})
