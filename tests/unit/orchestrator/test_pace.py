"""Chunks are handed out at a rate, each at its own turn."""

from __future__ import annotations

from orchestrator.pace import FURTHEST_S, QUIET_S, Pace
from piecework.model import JobRef
from piecework.store.reopen import Turn

REF = JobRef("acme", "job")


def test_turns_come_at_the_rate() -> None:
    pace = Pace(2.0, 1000.0)
    assert [1000.0, 1000.5, 1001.0] == [pace.turn(n).not_before for n in range(3)]


def test_messages_wait_for_the_turn_of_their_chunk() -> None:
    refs = [REF.chunk(n) for n in range(5)]
    waits = Pace(2.0, 1000.0).delays(refs, 1000.0)
    assert {0: refs[:1], 1: refs[1:3], 2: refs[3:]} == waits
    late = Pace(2.0, 1000.0).delays(refs, 1001.5)
    assert {0: refs[:4], 1: refs[4:]} == late


def test_turns_too_late_for_a_message_are_left_to_the_reconciler() -> None:
    pace = Pace(1.0, 0.0)
    last, later = int(FURTHEST_S), int(FURTHEST_S) + 1
    assert Turn(last, last + QUIET_S) == pace.turn(last)
    assert Turn(later, later) == pace.turn(later)
    sent = pace.delays([REF.chunk(n) for n in range(later + 1)], 0.0)
    assert later == sum(map(len, sent.values()))
