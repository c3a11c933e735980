"""The judge of killed runs, with planted books."""

from __future__ import annotations

import pytest

from verification.resume.book import judge

WHOLE = ["start", "begin 0", "end 0", "effect 0 a", "begin 1", "end 1", "effect 1 b"]
KILLED = ["start", "begin 0", "end 0", "begin 1"]
ENDED = ["begin 1", "end 1", "effect 0 a", "effect 1 b"]


@pytest.mark.parametrize(
    ("lines", "results", "figure", "value"),
    [
        (WHOLE, {0, 1}, "kills", 0),
        ([*KILLED, "start", *ENDED], {0, 1}, "paid_twice", 1),
        ([*KILLED, "start", *ENDED], {0, 1}, "in_flight", 1),
        ([*KILLED, "start", *ENDED], {0}, "lost", 1),
        ([*KILLED, "start", "begin 0", "end 0", *ENDED], {0, 1}, "above_flight", 1),
        (
            [*KILLED, "start", "begin 0", "end 0", *ENDED],
            {0, 1},
            "answered_and_lost",
            1,
        ),
        ([*WHOLE, "start", "effect 1 c"], {0, 1}, "effects_twice", 1),
        ([*WHOLE, "start", "effect 1 b"], {0, 1}, "effects_twice", 0),
        # A call that no process between has begun is still the one of the first kill.
        ([*KILLED, "start", "start", *ENDED], {0, 1}, "above_flight", 0),
    ],
)
def test_each_fault_has_its_figure(
    lines: list[str], results: set[int], figure: str, value: int
) -> None:
    figures = judge(lines, results, 2)
    assert getattr(figures, figure) == value
    bad = {"lost", "above_flight", "effects_twice"}
    assert figures.kept or figure in bad | {"answered_and_lost"}
    assert not (figure in bad and value and figures.kept)
