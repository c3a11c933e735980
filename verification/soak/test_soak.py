"""A tiny soak of true processes: what `make soak` does, in less than a minute."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from verification.soak import microburst
from verification.soak.plan import Plan
from verification.soak.run import run
from verification.soak.verdict import judge

TINY = Plan(chunks=45, kills=2, freezes=1, stops=1, seed=11, workers=3)


@pytest.mark.slow
def test_nothing_is_lost_or_done_twice_whatever_is_killed(
    emulator_python: Path, tmp_path: Path
) -> None:
    microburst.ensure()
    course = asyncio.run(run(TINY, tmp_path, print))
    verdict = judge(TINY, course)
    assert [] == list(verdict.broken())
    assert (45, 0, 0) == (
        course.accounts.chunks,
        course.accounts.lost,
        course.accounts.nonterminal,
    )
    assert 2 == len(course.actors.fleet.deaths)
    assert course.faults
