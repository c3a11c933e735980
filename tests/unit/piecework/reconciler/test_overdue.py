"""From when a chunk is overdue, and that the reconciler's look tells the longest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from piecework.aws.queue import BATCH
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.refs import JobRef
from piecework.reconciler.pass_state import Overdue, PassContext, overdue_since

REF = JobRef("acme", "job-1")
NOW = 1_700_000_000.0


def job(**item: Any) -> Job:
    facts = {"status": "RUNNING", "gen": 1, "chunks": 2, "pipeline": "p"}
    return Job.read(REF, facts | {"sent_at": iso(NOW - 100)} | item)


def chunk(status: str, number: int = 0, **item: Any) -> Chunk:
    return Chunk.read(REF.chunk(number), {"status": status, "gen": 1, **item})


@pytest.mark.parametrize(
    ("seen", "seconds"),
    [
        (chunk("PENDING"), 100),
        (chunk("PENDING", retry_at=iso(NOW - 7)), 7),
        (chunk("WAITING", retry_at=iso(NOW - 40)), 40),
        (chunk("WAITING", retry_at=iso(NOW + 40)), 0),
        (chunk("WAITING", claimed_at=iso(NOW - 60)), 60),
        (chunk("RUNNING", claim_expires_at=iso(NOW + 30)), 0),
        (chunk("RUNNING", claim_expires_at=iso(NOW - 30)), 30),
        (chunk("SUCCEEDED"), 0),
        (chunk("DEAD"), 0),
    ],
)
def test_a_chunk_waits_from_when_it_could_be_worked_on(
    seen: Chunk, seconds: float
) -> None:
    overdue = Overdue()
    overdue.note(job(), seen, NOW)

    assert overdue.seconds() == pytest.approx(seconds)


def test_a_reopened_chunk_waits_from_its_reopening() -> None:
    reopened = job(reopened_at=iso(NOW - 3))

    assert overdue_since(reopened, chunk("PENDING")) == iso(NOW - 3)


def test_the_longest_counts_and_a_new_look_begins_anew() -> None:
    overdue = Overdue()
    overdue.note(job(), chunk("WAITING", retry_at=iso(NOW - 4)), NOW)
    overdue.note(job(), chunk("WAITING", number=1, retry_at=iso(NOW - 9)), NOW)
    assert overdue.seconds() == pytest.approx(9)

    later = Job.read(JobRef("acme", "job-2"), job().item)
    overdue.note(later, chunk("WAITING", retry_at=iso(NOW - 11)), NOW)
    assert overdue.seconds() == pytest.approx(11)

    overdue.forget(later.ref)
    overdue.forget(REF)
    assert overdue.seconds() == 0


async def test_messages_are_sent_in_full_batches_and_the_rest_at_the_end() -> None:
    sizes: list[int] = []

    async def send(messages: list[Any], **_: str) -> None:
        sizes.append(len(messages))

    rt: Any = SimpleNamespace(work=SimpleNamespace(send=send))
    context = PassContext(rt)
    for number in range(2 * BATCH + 1):
        await context.dispatch(job(), REF.chunk(number), 1)
    assert [BATCH, BATCH] == sizes
    await context.send()
    await context.send()
    assert [BATCH, BATCH, 1] == sizes


def test_a_wait_is_counted_up_to_when_its_chunk_was_seen() -> None:
    overdue = Overdue()
    overdue.note(job(), chunk("RUNNING", claim_expires_at=iso(NOW + 30)), NOW)
    overdue.note(job(), chunk("WAITING", retry_at=iso(NOW - 4)), NOW + 60)

    assert overdue.seconds() == pytest.approx(64)
