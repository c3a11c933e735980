"""A canary redrive grows while what it redrives comes through, and stops otherwise."""

from __future__ import annotations

from collections import Counter

import pytest

from orchestrator.waves import Came, Verdict, judge, waves


@pytest.mark.parametrize(
    ("count", "first", "expected"),
    [
        (10, 1, [1, 2, 4, 3]),
        (7, 1, [1, 2, 4]),
        (3, 5, [3]),
        (9, 3, [3, 6]),
        (0, 2, []),
    ],
)
def test_each_wave_is_twice_the_one_before(
    count: int, first: int, expected: list[int]
) -> None:
    cut = list(waves(range(count), first))
    assert expected == [len(wave) for wave in cut]
    assert list(range(count)) == [one for wave in cut for one in wave]


@pytest.mark.parametrize(
    ("came", "expected"),
    [
        (Came(redriven=2, succeeded=2), Verdict.GO_ON),
        (Came(redriven=2, succeeded=1, died=Counter({"other": 1})), Verdict.GO_ON),
        (Came(redriven=9, succeeded=8, died=Counter({"same": 1})), Verdict.CAME_BACK),
        (Came(redriven=2, died=Counter({"other": 2})), Verdict.NOTHING_THROUGH),
        (Came(redriven=2, succeeded=1, cancelled=1), Verdict.CANCELLED),
        (Came(), Verdict.GO_ON),
    ],
)
def test_a_wave_decides_on_the_next(came: Came, expected: Verdict) -> None:
    assert expected is judge(came, {"same"})
