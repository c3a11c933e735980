"""The chunks of a large job that have no message: each is drawn once, or sent again."""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import Any

import pytest

from piecework.aws.queue import Message
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.priority import Priority, backlog_start
from piecework.domain.states import JobStatus
from piecework.reconciler import chunks
from piecework.reconciler.chunks import reconcile_chunks
from piecework.reconciler.pass_state import DrawnChunks, draw_lost_s
from piecework.settings import Settings
from piecework.store.backlogs import Backlog, Backlogs, closing
from tests.store.conftest import NOW, Store
from tests.store.deployment import pass_context, sent

ALREADY_SENT = iso(NOW)


async def opened(store: Store, start: int = 2, **facts: Any) -> tuple[Job, Backlogs]:
    job = await store.put_job(JobStatus.RUNNING, backlog_start=start, **facts)
    backlogs = Backlogs(store.table)
    await backlogs.open(job, start)
    return job, backlogs


async def known(store: Store) -> list[Backlog]:
    """Return the backlog of this test's job, as a worker reads it."""
    found = Backlogs(store.table).of_queue("")
    return [backlog async for backlog in found if backlog.ref == store.ref]


@pytest.mark.parametrize(
    ("priority", "chunks", "start"),
    [
        (Priority.NORMAL, 64, None),
        (Priority.NORMAL, 65, 64),
        (Priority.HIGH, 1, 0),
        (Priority.LOW, 65, 0),
    ],
)
def test_a_backlog_begins_after_the_first_messages(
    priority: Priority, chunks: int, start: int | None
) -> None:
    assert start == backlog_start(priority, chunks)


async def test_workers_that_draw_at_once_draw_different_chunks(store: Store) -> None:
    _, backlogs = await opened(store)
    [backlog] = await known(store)
    replies = await asyncio.gather(*(backlogs.draw(backlog, 2) for _ in range(3)))
    assert [2, 3, 4] == sorted(chain.from_iterable(drawn for drawn, _ in replies))
    assert None in [after for _, after in replies]
    assert [] == await known(store)


async def test_a_submit_that_is_repeated_opens_no_second_backlog(store: Store) -> None:
    job, backlogs = await opened(store)
    [backlog] = await known(store)
    await backlogs.draw(backlog, 1)
    await backlogs.open(job, 2)
    assert [3] == [each.next for each in await known(store)]
    later = await store.put_job(JobStatus.RUNNING, gen=3, backlog_start=2)
    await backlogs.open(later, 2)
    assert (range(0), None) == await backlogs.draw(backlog, 1), "of an earlier gen"


@pytest.mark.parametrize(("lease_s", "lost_s"), [(60.0, 30.0), (5.0, 2.5)])
async def test_a_drawn_chunk_is_lost_after_half_a_lease(
    store: Store, lease_s: float, lost_s: float
) -> None:
    """So a chunk of a killed worker starts no later than those that it had claimed."""
    job, drawn = await store.put_job(JobStatus.RUNNING), DrawnChunks()
    chunk = await store.put_chunk()  # chunk 3
    assert lost_s == draw_lost_s(Settings(lease_s=lease_s))
    passes = [(100.0, 3), (101.0, 4), (101.0 + lost_s, 5)]
    for now, following in passes:
        drawn.note(job, following, now, lost_s)
        lost = now == passes[-1][0]
        assert lost is (drawn.lost_at(chunk, lost_s) <= now)


async def test_a_priority_is_changed_only_with_a_backlog(store: Store) -> None:
    job, backlogs = await opened(store)
    assert await backlogs.set_priority(job, Priority.LOW)
    assert [Priority.LOW] == [each.priority for each in await known(store)]
    changed = await store.jobs.read(store.ref)
    assert changed is not None
    assert Priority.LOW is changed.priority
    await store.table.transact(closing(store.table, job))
    assert not await backlogs.set_priority(job, Priority.HIGH)


async def test_a_drawn_chunk_that_no_worker_claims_is_sent_after_half_a_lease(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, backlogs = await opened(store, sent_at=ALREADY_SENT)
    [backlog] = await known(store)
    await store.put_chunk()  # chunk 3
    context = pass_context(store)
    monkeypatch.setattr(chunks, "draw_lost_s", lambda _: 0.0)
    await reconcile_chunks(context, job)
    assert [] == sent(context.rt), "it was not drawn"

    await backlogs.draw(backlog, 2)
    monkeypatch.setattr(chunks, "draw_lost_s", draw_lost_s)
    await reconcile_chunks(context, job)
    assert [] == sent(context.rt), "a worker may be about to claim it"

    monkeypatch.setattr(chunks, "draw_lost_s", lambda _: 0.0)
    await reconcile_chunks(context, job)
    await context.send()
    assert [Message.about(store.chunk, 2)] == sent(context.rt)
