"""A large job is taken up again with little in memory, and seen to be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator import resume as resuming
from orchestrator.resume import Wish, slim, take_up
from piecework.fanout import LIFE_EVERY_S
from piecework.model import Chunk, Job
from piecework.settings import Settings
from piecework.store.dead_letters import Closing
from piecework.store.reopen import Patched, Reopening, Turn, reopening
from tests.unit.piecework.store.tables import REF, paper

DEAD = {"status": "DEAD", "gen": 1, "fence": 2, "stage": "second", "label": "7 Fees"}


@pytest.mark.parametrize("more", [{}, {"resume_at": "first", "error_code": "x.y.z"}])
def test_what_is_kept_of_a_chunk_is_enough_to_reopen_it(more: dict[str, Any]) -> None:
    chunk, table = Chunk.read(REF, DEAD | more), paper()
    how = Reopening(Patched("p/0+1", "ab", "{}"), Turn(1.0, 2.0))
    assert reopening(table, chunk, 2, how) == reopening(table, slim(chunk), 2, how)
    assert {"label", "error_code"} & slim(chunk).item.keys() == set()


async def test_who_reopens_very_many_chunks_shows_signs_of_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[tuple[int, float]] = []
    rt: Any = SimpleNamespace(now=0.0, table=None, dead_letters=None)
    rt.settings, rt.clock, rt.jobs = Settings(), lambda: rt.now, rt

    async def seen_to(_: object, gen: int) -> None:
        shown.append((gen, rt.now))

    async def slowly(*_: object) -> bool:
        rt.now += LIFE_EVERY_S / 2
        return True

    rt.seen_to = seen_to
    monkeypatch.setattr(resuming, "reopen_chunk", slowly)
    item = {"status": "RESUMING", "gen": 2, "chunks": 5, "pipeline": "p"}
    wishes = [Wish(Chunk.read(REF.of.chunk(number), DEAD)) for number in range(5)]
    job = Job.read(REF.of, item)
    taken_up = await take_up(rt, job, wishes, Closing("me", "why"), None)
    assert 5 == len(taken_up)
    assert [(2, LIFE_EVERY_S), (2, 2 * LIFE_EVERY_S)] == shown
