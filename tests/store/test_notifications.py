"""A notification is written with its cause, and delivered as it was taken."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.notification import NotificationRow
from piecework.domain.states import JobStatus
from piecework.store.notifications import ABANDONED, DELIVERED, PENDING, Notifications
from piecework.store.table import Written
from tests.store.conftest import NOW, Store
from tests.store.table import Case

NoticeWrite = Callable[[Notifications, Any], Awaitable[Any]]
S = JobStatus


def notifications(store: Store) -> Notifications:
    return Notifications(store.table, store.clock)


async def a_notification(store: Store, **facts: Any) -> NotificationRow:
    """Lay a notice down that is due, and was taken once by us."""
    item = {
        "event": "ended",
        "gen": 2,
        "state": PENDING,
        "due_at": iso(NOW),
        "redispatch_at": iso(NOW),
        "attempts": 1,
        **facts,
    }
    sk = keys.notification_sk(2, "ended")
    await store.put(store.ref.pk, sk, **item)
    return NotificationRow({"pk": store.ref.pk, "sk": sk, **item})


async def take(here: Notifications, row: Any) -> Any:
    return await here.take(row, 60.0) is not None


async def mark_delivered(here: Notifications, row: Any) -> Any:
    return await here.mark_delivered(row)


async def schedule_retry(here: Notifications, row: Any) -> Any:
    return await here.schedule_retry(row, 30.0, "not now")


async def abandon(here: Notifications, row: Any) -> Any:
    return await here.abandon(row, "never")


async def mark_redispatched(here: Notifications, row: Any) -> Any:
    return await here.mark_redispatched(row, 900.0)


LATER = iso(NOW + 1)
ENDED = [{"state": DELIVERED}, {"state": ABANDONED}]
#: What each write leaves, and what each of its conditions is refused by.
WRITES: list[tuple[NoticeWrite, dict[str, Any], list[dict[str, Any]]]] = [
    (take, {"attempts": 2, "due_at": iso(NOW + 60)}, [{"due_at": LATER}]),
    (mark_delivered, {"state": DELIVERED, "delivered_at": iso(NOW)}, []),
    (
        schedule_retry,
        {"due_at": iso(NOW + 30), "last_error": "not now"},
        [{"due_at": LATER}, {"attempts": 2}],
    ),
    (
        abandon,
        {"state": ABANDONED, "last_error": "never"},
        [{"due_at": LATER}, {"attempts": 2}],
    ),
    (mark_redispatched, {"redispatch_at": iso(NOW + 900)}, [{"redispatch_at": LATER}]),
]
CASES = [
    Case(
        name=f"{write.__name__} a notice",
        before=a_notification,
        key=lambda store: (store.ref.pk, keys.notification_sk(2, "ended")),
        act=lambda store, row, write=write: write(notifications(store), row),
        left=left,
        moved=[*ENDED, *moved],
    )
    for write, left, moved in WRITES
]


async def test_a_job_that_notifies_stays_listed_until_it_is_closed(
    store: Store,
) -> None:
    job = await store.put_job(S.FINALIZING, has_notify_hook=True)
    assert await ended(store, job, S.PARTIAL) is True
    (row,) = await notifications(store).of(store.ref)
    assert (row.event, row.job_status, row.counts) == (
        "ended",
        "PARTIAL",
        {"SUCCEEDED": 1},
    )
    assert "cancelled_by" not in row.item
    assert await listed(store)
    assert await notifications(store).close(await store.jobs.read(store.ref)) is True
    assert not await listed(store)


async def test_a_notification_names_the_operator_of_a_cancel(store: Store) -> None:
    by = {"cancelled_by": "me", "cancel_reason": "enough"}
    job = await store.put_job(S.CANCELLING, has_notify_hook=True, **by)
    assert (
        await store.transitions.cancelled(job, {"outcomes": {"CANCELLED": 5}}) is True
    )
    (row,) = await notifications(store).of(store.ref)
    assert by.items() <= row.item.items()
    assert (row.job_status, row.counts) == ("CANCELLED", {"CANCELLED": 5})


@pytest.mark.parametrize("change", [{"gen": 3}, {"status": S.RUNNING}])
async def test_a_job_that_was_reopened_since_is_not_closed(
    store: Store, change: dict[str, Any]
) -> None:
    job = await store.put_job(S.FINALIZING, has_notify_hook=True)
    await ended(store, job, S.PARTIAL)
    seen = await store.jobs.read(store.ref)
    assert seen is not None
    await store.change(store.ref.pk, keys.META_SK, **change)
    assert await notifications(store).close(seen) is False
    assert await listed(store)


async def ended(store: Store, job: Job, status: JobStatus) -> bool:
    await store.transitions.table.put(
        store.table.item_write(
            "Put",
            keys.ACTIVE_PK,
            keys.active_sk(store.ref.tenant, store.ref.job),
            item={"tenant": store.ref.tenant, "job": store.ref.job},
        )
    )
    facts = {"certificate": "c", "outcomes": {"SUCCEEDED": 1}}
    actions = await store.transitions.ending(job, status, facts)
    return isinstance(await store.table.transact(actions), Written)


async def listed(store: Store) -> bool:
    return store.ref in [ref async for ref in store.jobs.active()]
