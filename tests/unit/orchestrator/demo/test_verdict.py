from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.demo.verdict import Counts, failures, last_line
from piecework.model import JobStatus

AS_PROMISED = Counts(
    status=JobStatus.SUCCEEDED,
    chunks=22,
    succeeded=22,
    lost=0,
    effects=66,
    effects_expected=66,
    duplicate_effects=0,
    slots_open=0,
    calls_paid_twice=5,
    in_hand=3,
    taken_over=3,
    redriven=1,
)


def test_a_story_that_went_as_promised_has_no_failure() -> None:
    assert [] == failures(AS_PROMISED)


def test_calls_paid_twice_are_told_and_are_no_failure() -> None:
    assert [] == failures(replace(AS_PROMISED, calls_paid_twice=40))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"status": JobStatus.PARTIAL}, "the job ended PARTIAL"),
        ({"lost": 1}, "1 of 22 chunks are lost"),
        ({"duplicate_effects": 2}, "2 effects happened twice"),
        ({"effects": 65}, "65 effects took place, not 66"),
        ({"slots_open": 1}, "1 slots are left open"),
        ({"in_hand": 0, "taken_over": 0}, "the killed worker had no chunk in hand"),
        ({"taken_over": 2}, "2 of 3 chunks were taken over"),
        ({"redriven": 0}, "no dead letter was redriven"),
    ],
)
def test_each_broken_promise_is_a_failure_of_its_own(
    change: dict[str, Any], said: str
) -> None:
    assert [said] == failures(replace(AS_PROMISED, **change))


def test_the_last_line_is_figures_by_name_within_80_columns() -> None:
    expected = "lost=0 duplicate_effects=0 calls_paid_twice=5 chunks=22 redriven=1"
    assert expected == last_line(AS_PROMISED)
    assert len(last_line(replace(AS_PROMISED, calls_paid_twice=999))) < 80
