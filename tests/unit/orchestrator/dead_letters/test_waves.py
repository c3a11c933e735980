"""A canary redrive grows while chunks succeed, and stops otherwise."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from piecework.domain.refs import JobRef
from piecework.errors import UsageError
from piecework_orchestrator.dead_letters import canary
from piecework_orchestrator.dead_letters.canary import (
    CanaryRequest,
    Verdict,
    WaveResult,
    judge_wave,
    redrive_canary,
)


@pytest.mark.parametrize(
    ("letters", "first", "expected"),
    [
        ("a" * 10, 1, ["a", "aa", "aaaa", "aaa"]),
        ("aaa", 5, ["aaa"]),
        ("", 2, []),
        # What a running job would show is shown by another one.
        ("rabrcdr", 1, ["", "a", "bc", "d"]),
        ("abrbb", 2, ["ab", "bb"]),
    ],
)
async def test_each_wave_is_twice_as_large_and_leaves_out_a_job_that_runs(
    monkeypatch: pytest.MonkeyPatch, letters: str, first: int, expected: list[str]
) -> None:
    waves: list[str] = []
    said: list[str] = []

    async def redrive(_: object, asked: tuple[JobRef, str]) -> tuple[int, int]:
        if asked[0].job == "r":
            raise UsageError("It runs.", code="job.state.not_finished")
        return 1, 2

    async def read_wave_result(_: object, some: Any, gens: Any) -> WaveResult:
        waves.append("".join(one.job.job for one in some if one.job in gens))
        return WaveResult(len(waves[-1]), len(waves[-1]))

    monkeypatch.setattr(canary, "redrive", redrive)
    monkeypatch.setattr(canary, "read_wave_result", read_wave_result)
    monkeypatch.setattr(canary, "wait_for_end", AsyncMock())
    rows: Any = [
        SimpleNamespace(job=JobRef("t", job), fingerprint="") for job in letters
    ]
    asked = CanaryRequest(rows, lambda ref, _: (ref, ""), first)  # type: ignore[arg-type, return-value]
    rt: Any = None
    done = await redrive_canary(rt, asked, lambda _: None, said.append)
    assert expected == waves
    assert (letters.count("r"), Verdict.CONTINUE) == (done.remaining, done.verdict)
    assert ["job r is skipped: job.state.not_finished: It runs."] * (
        "r" in letters
    ) == said


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
