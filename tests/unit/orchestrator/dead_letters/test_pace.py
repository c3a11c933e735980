"""Chunks are dispatched at a rate, each in its own slot."""

from __future__ import annotations

from piecework.domain.refs import JobRef
from piecework.store.reopen import Schedule
from piecework_orchestrator.operate.retry import (
    LOST_AFTER_S,
    MAX_SQS_DELAY_S,
    DispatchRate,
)

REF = JobRef("acme", "job")


def test_slots_follow_the_rate() -> None:
    rate = DispatchRate(2.0, 1000.0)
    assert [1000.0, 1000.5, 1001.0] == [rate.slot(n).not_before for n in range(3)]


def test_messages_are_delayed_until_the_slot_of_their_chunk() -> None:
    refs = [REF.chunk(n) for n in range(5)]
    delays = DispatchRate(2.0, 1000.0).group_by_delay(refs, 1000.0)
    assert {0: refs[:1], 1: refs[1:3], 2: refs[3:]} == delays
    late = DispatchRate(2.0, 1000.0).group_by_delay(refs, 1001.5)
    assert {0: refs[:4], 1: refs[4:]} == late


def test_slots_beyond_the_sqs_delay_are_left_to_the_reconciler() -> None:
    rate = DispatchRate(1.0, 0.0)
    last, later = int(MAX_SQS_DELAY_S), int(MAX_SQS_DELAY_S) + 1
    assert Schedule(last, last + LOST_AFTER_S) == rate.slot(last)
    assert Schedule(later, later) == rate.slot(later)
    sent = rate.group_by_delay([REF.chunk(n) for n in range(later + 1)], 0.0)
    assert later == sum(map(len, sent.values()))
