from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from piecework.domain.states import JobStatus
from piecework_orchestrator.demo.check import Counts, failed_checks, summary_line

EXPECTED_COUNTS = Counts(
    status=JobStatus.SUCCEEDED,
    chunks=22,
    succeeded=22,
    lost=0,
    effects=66,
    effects_expected=66,
    duplicate_effects=0,
    slots_open=0,
    calls_paid_twice=5,
    claimed_at_kill=3,
    taken_over=3,
    redriven=1,
)


def test_calls_paid_twice_are_not_a_failure() -> None:
    assert [] == failed_checks(replace(EXPECTED_COUNTS, calls_paid_twice=40))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"status": JobStatus.PARTIAL}, "the job ended PARTIAL"),
        ({"lost": 1}, "1 of 22 chunks are lost"),
        ({"duplicate_effects": 2}, "2 effects happened twice"),
        ({"effects": 65}, "65 effects took place, not 66"),
        ({"slots_open": 1}, "1 slots are still open"),
        (
            {"claimed_at_kill": 0, "taken_over": 0},
            "the killed worker had no chunk",
        ),
        ({"taken_over": 2}, "2 of 3 chunks were taken over"),
        ({"redriven": 0}, "no dead letter was redriven"),
    ],
)
def test_each_broken_guarantee_is_a_separate_failure(
    change: dict[str, Any], expected: str
) -> None:
    assert [expected] == failed_checks(replace(EXPECTED_COUNTS, **change))


def test_the_summary_line_has_named_figures_within_80_columns() -> None:
    expected = "lost=0 duplicate_effects=0 calls_paid_twice=5 chunks=22 redriven=1"
    assert expected == summary_line(EXPECTED_COUNTS)
    assert len(summary_line(replace(EXPECTED_COUNTS, calls_paid_twice=999))) < 80
