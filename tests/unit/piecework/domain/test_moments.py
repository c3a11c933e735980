from __future__ import annotations

from datetime import UTC, datetime
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piecework import Approval, Ladder, Pipeline, Rung, Stage
from piecework.domain.moments import LONGEST_WAIT_S, iso, moment
from piecework.errors import UsageError
from piecework.questions import declare
from tests.unit.piecework.fakes import Clause, context

MOMENTS = st.integers(0, 4_000_000_000_000).map(lambda ms: ms / 1000)


@given(MOMENTS, MOMENTS)
def test_moments_as_text_sort_as_they_come(one: float, other: float) -> None:
    assert len(iso(one)) == len(iso(other)) == 24
    if abs(one - other) >= 0.002:
        assert (one < other) == (iso(one) < iso(other))


@given(MOMENTS)
def test_a_moment_reads_back_to_the_millisecond_and_never_later(at: float) -> None:
    assert -0.0011 < moment(iso(at)) - at <= 0.000001


@given(st.floats(0, 4_000_000_000))
def test_a_moment_is_written_as_the_calendar_has_it(at: float) -> None:
    calendar = datetime.fromtimestamp(at, UTC)
    assert calendar.isoformat(timespec="milliseconds")[:-6] + "Z" == iso(at)


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (1.9999994, "1970-01-01T00:00:01.999Z"),
        (1.9999996, "1970-01-01T00:00:02.000Z"),
    ],
)
def test_what_rounds_up_to_a_second_is_in_the_next(at: float, text: str) -> None:
    assert text == iso(at)


def test_a_moment_reads_without_a_calculator() -> None:
    assert iso(1_700_000_000.5) == "2023-11-14T22:13:20.500Z"


@pytest.mark.parametrize("wait_s", [inf, nan, 1e12])
async def test_no_wait_ends_after_the_year_9999(wait_s: float) -> None:
    async def one(_: Any) -> None: ...

    ctx = context(Pipeline(name="p", payload=Clause, stages=[Stage(one)]), stage="one")
    with pytest.raises(UsageError, match="too long"):
        declare("paid", "Pay?", Approval, wait_s, (), (), None)
    with pytest.raises(UsageError, match="before the year 10000"):
        await ctx.sleep_until(wait_s)
    with pytest.raises(UsageError, match="before the year 10000"):
        await ctx.sleep(days=wait_s)
    assert Ladder(rungs=[Rung("late", after_s=wait_s)]).errors()
    assert Ladder(rungs=[Rung("late", after_s=LONGEST_WAIT_S)]).errors() == []
