"""Guarantee: the chart of a job shows each result, error and cent at its time, once."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.domain.chunk import Chunk
from piecework.domain.moments import iso
from piecework.domain.refs import JobRef
from piecework_orchestrator.ui.chart import MAX_BARS, JobHistory, make_chart, step_of
from tests.ui.conftest import Deployment, Page

BEGAN = 1_800_000_000.0


def history_of(*items: dict[str, Any]) -> JobHistory:
    found = JobHistory()
    for number, item in enumerate(items):
        chunk = Chunk.read(JobRef("default", "a").chunk(number), {"gen": 1, **item})
        found.add(chunk, BEGAN + 100)
    return found


def at(seconds: float) -> str:
    return iso(BEGAN + seconds)


def test_each_event_is_in_the_bar_of_its_time() -> None:
    used = {"paid": {"m": [1, 0, 0, 250_000_000]}}
    failed = [
        {"end": "retry", "to": at(11)},
        {"end": "lost", "to": at(12)},
        {"end": "released", "to": at(13)},  # no error
    ]
    drawn = make_chart(
        history_of(
            {"status": "SUCCEEDED", "ended_at": at(3), "call_usage": used},
            {"status": "SUCCEEDED", "ended_at": at(3.5), "history": failed},
            {"status": "DEAD", "ended_at": at(95), "call_usage": used},
            {"status": "RUNNING", "claim_usage": used},
            {"status": "CANCELLED", "ended_at": at(50)},
        ),
        BEGAN,
        BEGAN + 100,
    )
    assert drawn is not None
    found = {
        name: [(bar.at, bar.amount) for bar in series.bars]
        for name, series in drawn.series.items()
    }
    assert (2, at(0), at(100)) == (drawn.step_s, drawn.began, drawn.ended)
    assert found == {
        "results": [(at(2), 2)],
        "errors": [(at(10), 1), (at(12), 1), (at(94), 1)],
        "money": [(at(2), 0.25), (at(94), 0.25), (at(98), 0.25)],
    }


def test_a_bar_is_as_high_as_its_part_of_the_highest_and_never_invisible() -> None:
    items = [{"status": "SUCCEEDED", "ended_at": at(s)} for s in (1, 1, 1, 1, 9)]
    items += [{"status": "SUCCEEDED", "ended_at": at(5)}] * 400
    drawn = make_chart(history_of(*items), BEGAN, BEGAN + 10)
    assert drawn is not None
    first, highest, last = drawn.series["results"].bars
    assert (highest.height, highest.y, highest.x, first.x) == (40.0, 0.0, 500.0, 100.0)
    assert last.height == first.height == 2.0
    assert "money" not in drawn.series


def test_a_clock_that_differs_moves_an_event_to_the_edge() -> None:
    items = [{"status": "SUCCEEDED", "ended_at": at(s)} for s in (-5, 15)]
    drawn = make_chart(history_of(*items), BEGAN, BEGAN + 10)
    assert drawn is not None
    assert [bar.x for bar in drawn.series["results"].bars] == [0.0, 900.0]


@pytest.mark.parametrize("seconds", [0, 0.5, 59, 61, 3_600, 86_400, 400 * 86_400])
def test_a_chart_of_any_length_has_few_bars(seconds: float) -> None:
    item = {"status": "SUCCEEDED", "ended_at": at(seconds)}
    drawn = make_chart(history_of(item), BEGAN, BEGAN + seconds)
    assert drawn is not None
    assert 1 <= seconds / step_of(seconds, MAX_BARS) + 1 <= MAX_BARS + 1
    assert len(drawn.series["results"].bars) == 1


def test_nothing_is_drawn_before_something_has_happened() -> None:
    assert make_chart(history_of({"status": "PENDING"}), BEGAN, BEGAN + 9) is None


async def test_the_page_of_a_job_draws_results_and_errors(
    deployment: Deployment, page: Page
) -> None:
    job = await deployment.submit("j-1", "one", "broken", "two")
    async with deployment.worker():
        await job.wait(timeout=20)
    for path in ("/jobs/j-1", "/jobs/j-1/report.html"):
        _, shown = await page.get(path)
        assert "Results over time: 2, at most" in shown
        assert "Errors over time: 1, at most 1 in" in shown
