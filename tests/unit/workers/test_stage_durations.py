from __future__ import annotations

import pytest

from piecework_worker.stage_durations import (
    MAX_SAMPLES,
    MIN_SAMPLES,
    RunningStage,
    StageDurations,
)


def timings(*spent: float, stage: str = "parse") -> StageDurations:
    known = StageDurations()
    for seconds in spent:
        known.record(RunningStage("review", stage, 100.0), 100.0 + seconds)
    return known


PARSE = RunningStage("review", "parse", 1000.0)


def test_a_stage_with_too_few_samples_may_end_in_time() -> None:
    known = timings(*[60.0] * (MIN_SAMPLES - 1))

    assert known.may_finish_by(PARSE, 1001.0, 1005.0)


def test_a_stage_that_mostly_takes_longer_will_not_end_in_time() -> None:
    known = timings(*[60.0] * MIN_SAMPLES)

    assert not known.may_finish_by(PARSE, 1001.0, 1021.0)


@pytest.mark.parametrize("until", [1060.0, 1061.0])
def test_a_stage_that_mostly_ends_before_the_end_is_waited_for(until: float) -> None:
    known = timings(*[60.0] * MIN_SAMPLES)

    assert known.may_finish_by(PARSE, 1045.0, until)


def test_a_stage_that_is_late_may_end_at_any_moment() -> None:
    known = timings(*[60.0] * MIN_SAMPLES)

    assert known.may_finish_by(PARSE, 1060.0, 1060.5)


def test_one_odd_run_decides_nothing() -> None:
    known = timings(60.0, 60.0, 0.01, 60.0)

    assert not known.may_finish_by(PARSE, 1001.0, 1021.0)


def test_each_stage_of_each_pipeline_has_its_own_times() -> None:
    known = timings(*[60.0] * MIN_SAMPLES, stage="render")
    other = RunningStage("report", "render", 1000.0)

    assert known.may_finish_by(PARSE, 1001.0, 1021.0)
    assert known.may_finish_by(other, 1001.0, 1021.0)


def test_old_times_are_forgotten() -> None:
    known = timings(*[60.0] * MAX_SAMPLES, *[1.0] * MAX_SAMPLES)

    assert known.may_finish_by(PARSE, 1000.0, 1002.0)
