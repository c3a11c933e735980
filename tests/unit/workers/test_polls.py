"""Which queue a worker of several queues receives from, and for how many slots."""

from __future__ import annotations

import pytest

from piecework.aws.queue import BATCH
from piecework_worker.polls import MAX_RECEIVES, Poll, Polls


def begin(polls: Polls, free: int, wait_s: int = 20) -> tuple[str, int]:
    poll = polls.next(free)
    assert poll is not None
    return poll.queue, polls.begin(poll, free, wait_s)


def answer(polls: Polls, queue: str, found: int) -> None:
    (poll,) = [each for each in of(polls) if each.queue == queue]
    polls.end(poll, found, 20)


def of(polls: Polls) -> list[Poll]:
    return polls._polls


def test_the_long_poll_of_an_empty_queue_keeps_one_slot_of_several_queues() -> None:
    polls = Polls(["", "gpu"])
    assert [("", 1), ("gpu", 1)] == [begin(polls, 16), begin(polls, 15)]
    assert polls.next(14) is None
    # A queue with messages takes more each time; the other keeps its slot.
    asked = []
    for found in (1, 2, 4, BATCH):
        answer(polls, "", found)
        asked.append(begin(polls, 14))
    assert [("", 2), ("", 4), ("", 8), ("", BATCH)] == asked
    assert polls.are_all_long


def test_queues_take_turns_by_the_start_of_their_last_receive() -> None:
    polls, order = Polls(["", "gpu"]), []
    for _ in range(4):
        queue, _most = begin(polls, 16)
        answer(polls, queue, 3)
        order.append(queue)
    assert ["", "gpu", "", "gpu"] == order


def test_a_short_poll_leaves_room_for_messages_beside_a_backlog() -> None:
    polls = Polls(["", "gpu"])
    begin(polls, 16, wait_s=20)
    begin(polls, 16, wait_s=0)
    assert not polls.are_all_long


def test_only_a_queue_that_returned_a_full_batch_has_a_second_receive() -> None:
    polls = Polls([""])
    assert ("", BATCH) == begin(polls, 32)
    answer(polls, "", BATCH)
    begin(polls, 32)
    assert polls.next(BATCH - 1) is None
    begin(polls, 32)
    assert (polls.in_flight, polls.next(32)) == (MAX_RECEIVES, None)


@pytest.mark.parametrize(("slots", "wait_s"), [(3, 20), (2, 6), (1, 6)])
def test_with_fewer_slots_than_queues_each_has_its_turn_soon(
    slots: int, wait_s: int
) -> None:
    assert wait_s == Polls(["", "a", "b"]).wait_s(20, slots)
