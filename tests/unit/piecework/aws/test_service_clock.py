from __future__ import annotations

from email.utils import formatdate
from typing import Any

import pytest

from piecework.aws.endpoint import EVERY_S, ServiceClock

TRUE = 1_790_000_000.4


class Machine:
    """A machine whose clock is wrong by so many seconds."""

    def __init__(self, wrong: float) -> None:
        self.true, self.wrong = TRUE, wrong
        self.clock = ServiceClock(lambda: self.true + self.wrong)

    def ask(self, *, away: float = 0.01, back: float = 0.01) -> None:
        """Make a request that is so long on its way."""
        asked = self.clock.local()
        self.true += away
        answer = told(self.true)
        self.true += back
        self.clock.observe(asked, answer)

    @property
    def error(self) -> float:
        """By how much the corrected clock is wrong."""
        return self.clock() - self.true


def told(moment: float) -> dict[str, Any]:
    """Return an answer of that moment."""
    headers = {"date": formatdate(int(moment), usegmt=True)}
    return {"ResponseMetadata": {"HTTPHeaders": headers}}


@pytest.mark.parametrize("wrong", [-3_600.0, -30.0, 30.0, 3_600.0])
def test_a_wrong_clock_is_corrected_to_within_a_second(wrong: float) -> None:
    machine = Machine(wrong)
    machine.ask()
    assert abs(machine.error) <= 0.6


def test_a_right_clock_is_left_alone() -> None:
    machine = Machine(0.3)
    machine.ask()
    assert 0.0 == machine.clock.offset


def test_more_answers_narrow_it_down() -> None:
    machine = Machine(30.0)
    machine.ask(away=5.0, back=5.0)
    assert abs(machine.error) <= 5.5
    assert machine.clock.due()
    machine.ask()
    assert abs(machine.error) <= 0.6
    assert not machine.clock.due()


def test_a_clock_that_was_set_is_learned_anew() -> None:
    machine = Machine(0.0)
    machine.ask()
    machine.wrong = -120.0
    assert machine.clock.due()
    machine.ask()
    assert abs(machine.error) <= 0.6


def test_the_clock_is_observed_only_when_due() -> None:
    machine = Machine(0.0)
    machine.ask()
    machine.true += EVERY_S - 1
    assert not machine.clock.due()
    machine.true += 2
    assert machine.clock.due()


def test_a_response_without_a_date_changes_nothing() -> None:
    clock = ServiceClock(lambda: TRUE)
    clock.observe(TRUE, {})
    assert TRUE == clock()


@pytest.mark.parametrize(
    "date",
    [
        "",
        "today",
        "Tue, 22 Sep 2026 10:00:00",
        "Tue, 22 Sep 2026 10:00:00 -0000",
        "Tue, 99 Sep 2026 10:00:00 GMT",
    ],
)
def test_a_malformed_date_changes_nothing(date: str) -> None:
    machine = Machine(0.0)
    answer = {"ResponseMetadata": {"HTTPHeaders": {"date": date}}}

    machine.clock.observe(machine.clock.local(), answer)

    assert 0.0 == machine.clock.offset
    assert machine.clock.due()
