"""When to ask for protection, and when to give it back: no clock but the test's."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from workers.ecs.shield import (
    AHEAD_S,
    GAP_S,
    IDLE_S,
    LONGEST_S,
    MINUTES,
    STILL_S,
    ProtectionPolicy,
    until_breath,
)

LONGEST = 3600.0
PERIOD = MINUTES * 60.0
NOW = 1000.0


def protected(at: float = NOW) -> ProtectionPolicy:
    shield = ProtectionPolicy(LONGEST)
    assert shield.wish(at, busy=True) is True
    shield.granted(at, on=True)
    return shield


def test_protection_is_asked_for_once_there_is_work_and_not_before() -> None:
    shield = ProtectionPolicy(LONGEST)

    assert shield.wish(NOW, busy=False) is None
    assert shield.wish(NOW + 1, busy=True) is True


def test_who_is_protected_does_not_ask_again_for_each_chunk() -> None:
    shield = protected()
    seconds = range(1, int(PERIOD - AHEAD_S))

    wishes = [shield.wish(NOW + s, busy=s % 20 < 5) for s in seconds]

    assert {None} == set(wishes)


def test_protection_is_prolonged_before_it_runs_out() -> None:
    shield = protected()
    assert shield.wish(NOW + PERIOD - AHEAD_S - 1, busy=True) is None
    later = NOW + PERIOD - AHEAD_S

    assert shield.wish(later, busy=True) is True
    shield.granted(later, on=True)
    assert shield.wish(NOW + PERIOD - 1, busy=True) is None


def test_protection_is_given_back_when_nothing_was_in_hand_for_a_while() -> None:
    shield = protected()

    assert shield.wish(NOW + IDLE_S - 1, busy=False) is None
    assert shield.wish(NOW + IDLE_S, busy=False) is False
    shield.granted(NOW + IDLE_S, on=False)
    assert shield.wish(NOW + IDLE_S + 1, busy=False) is None
    assert shield.wish(NOW + IDLE_S + 2, busy=True) is True


class Task:
    """Has chunks of so long, one after another, as long as it takes any."""

    def __init__(self, chunk_s: float) -> None:
        self.shield, self.chunk_s, self.ends = ProtectionPolicy(LONGEST), chunk_s, 0.0
        self.changes: list[tuple[float, bool]] = []
        self.begun: list[float] = []

    def second(self, now: float) -> None:
        breathes = self.shield.breath(now)
        if now >= self.ends and not breathes:
            self.begun.append(now)
            self.ends = now + self.chunk_s
        wish = self.shield.wish(now, busy=now < self.ends)
        if wish is not None:
            if wish is not (now < self.shield.until):
                self.changes.append((now, wish))
            self.shield.granted(now, on=wish)


@pytest.mark.parametrize("chunk_s", [1.0, 60.0, 899.0, 900.0])
def test_a_task_that_always_has_work_lets_go_every_hour_with_nothing_in_hand(
    chunk_s: float,
) -> None:
    task, bare = Task(chunk_s), []

    for second in range(4 * 3600):
        task.second(NOW + second)
        if NOW + second >= task.shield.until:
            bare.append((NOW + second, task.ends))

    assert all(ends <= now for now, ends in bare)
    assert [True, False, True, False, True] == [on for _, on in task.changes[:5]]
    for (began, on), (ended, _) in pairwise(task.changes):
        if on:
            assert LONGEST <= ended - began <= LONGEST + chunk_s + STILL_S
        else:
            assert ended - began == GAP_S


def test_nothing_is_begun_from_the_hour_until_it_is_protected_again() -> None:
    task = Task(60.0)

    for second in range(2 * 3600):
        task.second(NOW + second)

    _, (let_go, _), (again, _) = task.changes[:3]
    assert [] == [at for at in task.begun if NOW + LONGEST <= at <= again]
    assert let_go < again < next(at for at in task.begun if at > let_go) <= again + 1


def test_what_is_in_hand_during_a_breath_stays_protected() -> None:
    shield = protected()

    for second in range(1, int(2 * LONGEST)):
        assert shield.wish(NOW + second, busy=True) is not False
        if NOW + second >= shield.until - AHEAD_S:
            shield.granted(NOW + second, on=True)

    assert shield.breath(NOW + 2 * LONGEST)


def test_a_breath_is_over_though_ecs_refuses_to_let_go() -> None:
    shield = protected(NOW)
    for second in range(1, int(LONGEST)):
        if shield.wish(NOW + second, busy=True):
            shield.granted(NOW + second, on=True)
    seconds = range(int(LONGEST), int(LONGEST + PERIOD))

    for second in seconds:
        if shield.wish(NOW + second, busy=False) is not None:
            shield.refused(NOW + second)

    assert shield.breath(NOW + LONGEST)
    assert not shield.breath(NOW + LONGEST + PERIOD)
    assert shield.wish(NOW + LONGEST + 2 * PERIOD, busy=True) is True


def test_a_breath_is_over_though_ecs_does_not_protect_again() -> None:
    shield = protected(NOW)
    shield.since = NOW - LONGEST
    shield.granted(NOW, on=False)
    after = NOW + GAP_S
    assert shield.breath(after)

    assert shield.wish(after, busy=False) is True
    shield.refused(after)

    assert not shield.breath(after)


def test_a_task_that_was_idle_in_between_needs_no_breath() -> None:
    shield = protected()
    shield.granted(NOW + IDLE_S, on=False)
    assert shield.wish(NOW + LONGEST - 1, busy=True) is True
    shield.granted(NOW + LONGEST - 1, on=True)

    assert not shield.breath(NOW + LONGEST + 1)


def test_tasks_that_were_launched_together_do_not_breathe_together() -> None:
    drawn = [until_breath(Random(seed)) for seed in range(20)]

    assert 0.75 * LONGEST_S <= min(drawn) < max(drawn) <= LONGEST_S == LONGEST
    assert max(drawn) - min(drawn) > 10 * GAP_S


def test_a_refusal_is_tried_again_ever_more_rarely_and_is_news_once() -> None:
    shield, asked, news = ProtectionPolicy(LONGEST), [], []

    for second in range(400):
        if shield.wish(NOW + second, busy=True):
            asked.append(second)
            news.append(shield.refused(NOW + second))

    gaps = [b - a for a, b in pairwise(asked)]
    assert [True] == [told for told in news if told]
    assert sorted(gaps) == gaps
    assert 2 == gaps[0]
    assert max(gaps) <= 60


def test_after_an_answer_a_refusal_is_news_again() -> None:
    shield = ProtectionPolicy(LONGEST)
    assert shield.refused(NOW)
    assert not shield.refused(NOW)
    shield.granted(NOW, on=True)

    assert shield.refused(NOW)


def test_protection_that_could_not_be_prolonged_is_asked_for_anew() -> None:
    shield = protected()
    shield.refused(NOW + PERIOD - 1)

    assert shield.wish(NOW + PERIOD + 2, busy=True) is True
