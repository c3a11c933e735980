"""Faults that follow from a seed."""

from __future__ import annotations

import pytest

from piecework_examples.contract_review.services.faults import Fault, Faults


def failed(faults: Faults, attempt: int = 1) -> list[str]:
    return [name for name in map(str, range(2_000)) if faults.draw(name, attempt)]


def test_one_seed_draws_the_same_and_another_does_not() -> None:
    first = failed(Faults(seed=7, rate=0.05))
    assert first == failed(Faults(seed=7, rate=0.05))
    assert first != failed(Faults(seed=8, rate=0.05))


def test_the_share_of_failures_is_the_rate() -> None:
    assert 0.05 == pytest.approx(
        len(failed(Faults(seed=1, rate=0.05))) / 2_000, abs=0.012
    )
    assert [] == failed(Faults(rate=0))


def test_later_tries_never_fail() -> None:
    faults = Faults(rate=1.0, tries=2)
    assert 2_000 == len(failed(faults, 2))
    assert [] == failed(faults, 3)


def test_every_kind_of_the_mix_is_drawn() -> None:
    faults = Faults(rate=1.0, mix={Fault.HANG: 1, Fault.LOST: 1})
    assert {Fault.HANG, Fault.LOST} == {faults.draw(str(n), 1) for n in range(50)}
