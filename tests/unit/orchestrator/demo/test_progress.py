from __future__ import annotations

from dataclasses import replace

import pytest

from piecework_orchestrator.demo.screen import Progress, format_clock

HALF_WAY = Progress(
    chunks_ended=9,
    chunks=22,
    calls_made=301,
    calls_done=286,
    calls_expected=572,
    retries=14,
    rate_limited=9,
    p95_s=0.412,
    elapsed_s=10.0,
    workers={"w1": "chunk 12 score"},
)


def test_a_line_shows_chunks_calls_and_estimate() -> None:
    expected = (
        "chunks 9/22  calls 286/572"
        "  eta 0:10  29/s  made 301  retries 14  429s 9  p95 0.41 s"
    )
    assert expected == HALF_WAY.format_line()


def test_without_a_finished_call_there_is_no_estimate() -> None:
    start = replace(HALF_WAY, calls_made=0, calls_done=0, elapsed_s=0.0, p95_s=None)

    assert start.eta_s is None
    assert "eta -:--  0/s" in start.format_line()
    assert start.format_line().endswith("p95 -")


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.4, "0:00"), (7, "0:07"), (59.6, "1:00"), (605, "10:05")]
)
def test_seconds_are_shown_as_a_clock(seconds: float, shown: str) -> None:
    assert shown == format_clock(seconds)
