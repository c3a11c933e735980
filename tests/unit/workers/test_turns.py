"""Whose turn a free slot is."""

from __future__ import annotations

from itertools import permutations

from piecework.domain.priority import Priority
from piecework_worker.turns import MESSAGES, NEXT, Turns


def test_the_order_of_what_waits_decides_no_turn() -> None:
    waiting = (Priority.LOW, NEXT, Priority.HIGH, MESSAGES)
    assert {MESSAGES} == {Turns().next(each) for each in permutations(waiting)}


def test_a_turn_that_did_not_wait_has_saved_nothing_up() -> None:
    turns = Turns()
    turns.started(turns.next([Priority.HIGH]), 36)
    found = []
    for _ in range(6):
        found.append(turns.next([Priority.HIGH, Priority.LOW]))
        turns.started(found[-1], 6)
    assert [Priority.HIGH, Priority.LOW, Priority.HIGH] == found[:3]
    assert 1 == found.count(Priority.LOW)
