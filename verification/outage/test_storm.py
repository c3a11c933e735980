"""What a thousand clients do after an outage, by fewer of them: no storm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from verification.outage.storm import (
    FIVE,
    MOST_AT_5,
    MOST_AT_20,
    MOST_PEAK,
    OUTAGE,
    TWENTY,
    Weather,
    storm,
)


def few(weather: Weather) -> Weather:
    return replace(weather, clients=150)


def test_an_outage_of_a_minute_is_followed_by_no_storm() -> None:
    run = storm(few(OUTAGE))
    assert run.peak <= MOST_PEAK
    assert run.answered == run.needed
    calm, late = range(20, 40), range(80, 100)
    assert sum(run.made[s] for s in late) < sum(run.made[s] for s in calm)


@pytest.mark.parametrize(("weather", "most"), [(FIVE, MOST_AT_5), (TWENTY, MOST_AT_20)])
def test_retries_stay_a_share_of_what_succeeds(weather: Weather, most: float) -> None:
    run = storm(replace(few(weather), seconds=60.0))
    assert run.amplification <= most
    assert run.answered == run.needed
