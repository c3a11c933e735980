"""When to ask for protection, and when to give it back: no clock but the test's."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from piecework_worker.ecs import (
    IDLE_S,
    MINUTES,
    PAUSE_AFTER_S,
    PAUSE_IDLE_S,
    RENEW_AHEAD_S,
    UNPROTECTED_S,
    ProtectionPolicy,
    draw_pause_interval,
)

PERIOD_S = 3600.0
PERIOD = MINUTES * 60.0
NOW = 1000.0


def protected(at: float = NOW) -> ProtectionPolicy:
    policy = ProtectionPolicy(PERIOD_S)
    assert policy.desired_change(at, busy=True) is True
    policy.on_granted(at, on=True)
    return policy


def test_protection_is_asked_for_once_there_is_work_and_not_before() -> None:
    policy = ProtectionPolicy(PERIOD_S)

    assert policy.desired_change(NOW, busy=False) is None
    assert policy.desired_change(NOW + 1, busy=True) is True


def test_a_protected_task_does_not_request_protection_for_each_chunk() -> None:
    policy = protected()
    seconds = range(1, int(PERIOD - RENEW_AHEAD_S))

    wishes = [policy.desired_change(NOW + s, busy=s % 20 < 5) for s in seconds]

    assert {None} == set(wishes)


def test_protection_is_prolonged_before_it_runs_out() -> None:
    policy = protected()
    assert policy.desired_change(NOW + PERIOD - RENEW_AHEAD_S - 1, busy=True) is None
    later = NOW + PERIOD - RENEW_AHEAD_S

    assert policy.desired_change(later, busy=True) is True
    policy.on_granted(later, on=True)
    assert policy.desired_change(NOW + PERIOD - 1, busy=True) is None


def test_protection_ends_after_a_while_without_chunks() -> None:
    policy = protected()

    assert policy.desired_change(NOW + IDLE_S - 1, busy=False) is None
    assert policy.desired_change(NOW + IDLE_S, busy=False) is False
    policy.on_granted(NOW + IDLE_S, on=False)
    assert policy.desired_change(NOW + IDLE_S + 1, busy=False) is None
    assert policy.desired_change(NOW + IDLE_S + 2, busy=True) is True


class Task:
    """Runs one chunk after another while its intake is open."""

    def __init__(self, chunk_s: float) -> None:
        self.policy, self.chunk_s, self.ends = (
            ProtectionPolicy(PERIOD_S),
            chunk_s,
            0.0,
        )
        self.changes: list[tuple[float, bool]] = []
        self.begun: list[float] = []

    def second(self, now: float) -> None:
        paused = self.policy.must_pause(now)
        if now >= self.ends and not paused:
            self.begun.append(now)
            self.ends = now + self.chunk_s
        change = self.policy.desired_change(now, busy=now < self.ends)
        if change is not None:
            if change is not (now < self.policy.protected_until):
                self.changes.append((now, change))
            self.policy.on_granted(now, on=change)


@pytest.mark.parametrize("chunk_s", [1.0, 60.0, 899.0, 900.0])
def test_a_busy_task_ends_protection_every_hour_when_idle(
    chunk_s: float,
) -> None:
    task, bare = Task(chunk_s), []

    for second in range(4 * 3600):
        task.second(NOW + second)
        if NOW + second >= task.policy.protected_until:
            bare.append((NOW + second, task.ends))

    assert all(ends <= now for now, ends in bare)
    assert [True, False, True, False, True] == [on for _, on in task.changes[:5]]
    for (began, on), (ended, _) in pairwise(task.changes):
        if on:
            assert PERIOD_S <= ended - began <= PERIOD_S + chunk_s + PAUSE_IDLE_S
        else:
            assert ended - began == UNPROTECTED_S


def test_nothing_is_begun_from_the_hour_until_it_is_protected_again() -> None:
    task = Task(60.0)

    for second in range(2 * 3600):
        task.second(NOW + second)

    _, (let_go, _), (again, _) = task.changes[:3]
    assert [] == [at for at in task.begun if NOW + PERIOD_S <= at <= again]
    assert let_go < again < next(at for at in task.begun if at > let_go) <= again + 1


def test_chunks_that_run_during_a_pause_stay_protected() -> None:
    policy = protected()

    for second in range(1, int(2 * PERIOD_S)):
        assert policy.desired_change(NOW + second, busy=True) is not False
        if NOW + second >= policy.protected_until - RENEW_AHEAD_S:
            policy.on_granted(NOW + second, on=True)

    assert policy.must_pause(NOW + 2 * PERIOD_S)


def test_a_pause_ends_even_if_ecs_refuses_to_end_protection() -> None:
    policy = protected(NOW)
    for second in range(1, int(PERIOD_S)):
        if policy.desired_change(NOW + second, busy=True):
            policy.on_granted(NOW + second, on=True)
    seconds = range(int(PERIOD_S), int(PERIOD_S + PERIOD))

    for second in seconds:
        if policy.desired_change(NOW + second, busy=False) is not None:
            policy.on_refused(NOW + second)

    assert policy.must_pause(NOW + PERIOD_S)
    assert not policy.must_pause(NOW + PERIOD_S + PERIOD)
    assert policy.desired_change(NOW + PERIOD_S + 2 * PERIOD, busy=True) is True


def test_a_pause_ends_even_if_ecs_does_not_protect_again() -> None:
    policy = protected(NOW)
    policy.protected_since = NOW - PERIOD_S
    policy.on_granted(NOW, on=False)
    after = NOW + UNPROTECTED_S
    assert policy.must_pause(after)

    assert policy.desired_change(after, busy=False) is True
    policy.on_refused(after)

    assert not policy.must_pause(after)


def test_a_task_that_was_idle_in_between_needs_no_pause() -> None:
    policy = protected()
    policy.on_granted(NOW + IDLE_S, on=False)
    assert policy.desired_change(NOW + PERIOD_S - 1, busy=True) is True
    policy.on_granted(NOW + PERIOD_S - 1, on=True)

    assert not policy.must_pause(NOW + PERIOD_S + 1)


def test_tasks_that_were_launched_together_do_not_pause_together() -> None:
    drawn = [draw_pause_interval(Random(seed)) for seed in range(20)]

    assert 0.75 * PAUSE_AFTER_S <= min(drawn) < max(drawn) <= PAUSE_AFTER_S == PERIOD_S
    assert max(drawn) - min(drawn) > 10 * UNPROTECTED_S


def test_a_refused_request_is_retried_less_often_and_logged_once() -> None:
    policy, asked, news = ProtectionPolicy(PERIOD_S), [], []

    for second in range(1500):
        if policy.desired_change(NOW + second, busy=True):
            asked.append(second)
            news.append(policy.on_refused(NOW + second))

    gaps = [b - a for a, b in pairwise(asked)]
    assert [True] == [told for told in news if told]
    assert [*range(2, 60, 2), *[60] * (len(gaps) - 29)] == gaps
    assert len(gaps) > 35


def test_after_an_answer_a_refusal_is_news_again() -> None:
    policy = ProtectionPolicy(PERIOD_S)
    assert policy.on_refused(NOW)
    assert not policy.on_refused(NOW)
    policy.on_granted(NOW, on=True)

    assert policy.on_refused(NOW)


def test_protection_that_could_not_be_prolonged_is_asked_for_anew() -> None:
    policy = protected()
    policy.on_refused(NOW + PERIOD - 1)

    assert policy.desired_change(NOW + PERIOD + 2, busy=True) is True
