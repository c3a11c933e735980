from __future__ import annotations

import pytest

from verification.naive import trial
from verification.naive.faults import INTENSITY
from verification.naive.figures import incomplete, table
from verification.naive.review import CHUNKS
from verification.naive.trial import DESIGNS, run_trial

SEEDS = range(1, 11)


def test_source_004_loses_chunks_where_piecework_does_not() -> None:
    found = {
        design: [run_trial(design, seed, INTENSITY) for seed in SEEDS]
        for design in ("naive", "ours")
    }

    assert 0 < incomplete(found["naive"]).hits < len(SEEDS) / 2
    assert (0, 0) == (
        incomplete(found["ours"]).hits,
        sum(o.effects_twice + o.twice for o in found["ours"]),
    )
    assert [] == [o.errors for both in found.values() for o in both if o.errors]
    assert 13 == len(table(found))


@pytest.mark.parametrize("design", DESIGNS)
def test_a_seed_has_the_same_story_each_time(design: str) -> None:
    first, second = (run_trial(design, 7, INTENSITY, traced=True) for _ in range(2))

    assert len(first.trace) > 100
    assert first == second


@pytest.mark.parametrize("design", ["naive", "ours"])
def test_what_never_works_is_a_dead_letter_and_not_incomplete(
    design: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "rates", lambda _: {"call.transient": 1.0})
    outcome = run_trial(design, 1, 0.0)

    assert (CHUNKS, False) == (outcome.dead, outcome.incomplete)
