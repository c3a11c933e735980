"""A canary redrive grows while chunks succeed, and stops otherwise."""

from __future__ import annotations

from collections import Counter

import pytest

from piecework_orchestrator.canary import (
    Verdict,
    WaveResult,
    judge_wave,
    split_into_waves,
)


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
def test_each_wave_is_twice_as_large_as_the_last(
    count: int, first: int, expected: list[int]
) -> None:
    cut = list(split_into_waves(range(count), first))
    assert expected == [len(wave) for wave in cut]
    assert list(range(count)) == [one for wave in cut for one in wave]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (WaveResult(redriven=2, succeeded=2), Verdict.CONTINUE),
        (
            WaveResult(redriven=2, succeeded=1, died=Counter({"other": 1})),
            Verdict.CONTINUE,
        ),
        (
            WaveResult(redriven=9, succeeded=8, died=Counter({"same": 1})),
            Verdict.CAUSE_RECURRED,
        ),
        (WaveResult(redriven=2, died=Counter({"other": 2})), Verdict.NONE_SUCCEEDED),
        (WaveResult(redriven=2, succeeded=1, cancelled=1), Verdict.CANCELLED),
        (WaveResult(), Verdict.CONTINUE),
    ],
)
def test_the_result_of_a_wave_decides_on_the_next(
    result: WaveResult, expected: Verdict
) -> None:
    assert expected is judge_wave(result, {"same"})
