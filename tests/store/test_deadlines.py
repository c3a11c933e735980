"""The process that sees first that a deadline has passed cancels the job, once."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.states import JobStatus
from piecework.reconciler.jobs import reconcile_job
from piecework.store.notifications import Notifications
from tests.store.conftest import NOW, Store
from tests.store.deployment import pass_context, sent
from tests.store.table import Case, of_job

S = JobStatus
PASSED, AHEAD = iso(NOW), iso(NOW + 1)


@pytest.mark.parametrize("status", [S.SUBMITTING, S.RUNNING, S.REOPENING])
async def test_a_deadline_that_passed_cancels_and_compensates(
    store: Store, status: JobStatus
) -> None:
    job = await store.put_job(status, deadline_at=PASSED, has_notify_hook=True)
    assert await store.transitions.expire(job) is True
    item = await store.item(store.ref.pk, keys.META_SK)
    assert item["status"] == "CANCELLING"
    assert (item["cancelled_by"], item["cancel_compensates"]) == ("deadline", True)
    assert item["cancel_code"] == "job.deadline.passed"
    assert item["cancelled_at"] == iso(NOW)
    assert [e.event for e in await store.jobs.events(store.ref)] == ["deadline"]
    (row,) = await Notifications(store.table, store.clock).of(store.ref)
    assert (row.event, row.job_status) == ("deadline", "CANCELLING")
    assert row.cancelled_by == "deadline"


async def expire(store: Store, job: Job) -> bool:
    return await store.transitions.expire(job)


CASES = [
    Case(
        name="expire",
        before=lambda store: store.put_job(
            S.RUNNING, deadline_at=PASSED, has_notify_hook=True
        ),
        key=of_job,
        act=expire,
        left={"status": "CANCELLING"},
        moved=[
            *({"status": s} for s in (S.FINALIZING, S.CANCELLING, S.SUCCEEDED)),
            {"gen": 3},
            {"deadline_at": AHEAD},
            {"deadline_at": None},
        ],
        is_once=True,
    )
]


async def test_the_reconciler_sweeps_what_it_expired(store: Store) -> None:
    await store.put_chunk(status="WAITING", fence=4)
    job = await store.put_job(S.RUNNING, deadline_at=PASSED)
    here = pass_context(store)
    acts = await reconcile_job(here, job)
    assert acts["deadline passed"] == 1
    assert (await store.item())["compensate_requested"] is True
    assert [m.ref for m in sent(here.rt)] == [store.chunk]


@pytest.mark.parametrize(
    ("status", "facts"),
    [
        (S.RUNNING, {"deadline_at": AHEAD}),
        (S.RUNNING, {}),
        (S.FINALIZING, {"deadline_at": PASSED}),
        (S.SUCCEEDED, {"deadline_at": PASSED}),
    ],
)
async def test_the_reconciler_leaves_other_jobs_alone(
    store: Store, status: JobStatus, facts: dict[str, Any]
) -> None:
    await store.put_chunk(status="RUNNING", fence=1)
    job = await store.put_job(status, sent_at=iso(NOW), **facts)
    await reconcile_job(pass_context(store), job)
    assert (await store.item(store.ref.pk, keys.META_SK))["status"] == status


async def test_a_job_before_its_deadline_is_reconciled(store: Store) -> None:
    item = (await store.put_chunk(redispatch_at=PASSED)).item
    last = store.ref.chunk(keys.PARTITION_SIZE)
    await store.put(last.pk, last.sk, **item | {"chunk": last.chunk})
    waiting = store.ref.chunk(4)
    waits = {"status": "WAITING", "retry_at": iso(NOW - 7), "redispatch_at": AHEAD}
    await store.put(waiting.pk, waiting.sk, **item | waits | {"chunk": 4})
    facts = {"chunks": last.chunk + 1, "sent_at": iso(NOW), "deadline_at": AHEAD}
    job = await store.put_job(S.RUNNING, **facts)
    here = pass_context(store)
    await reconcile_job(here, job)
    assert [store.chunk, last] == [m.ref for m in sent(here.rt)]
    assert 7 == here.overdue.seconds()


@pytest.mark.parametrize("status", [S.FINALIZING, None])
async def test_the_reconciler_cancels_no_chunk_of_a_job_that_moved_on(
    store: Store, status: JobStatus | None
) -> None:
    await store.put_chunk()
    job = await store.put_job(S.RUNNING, deadline_at=PASSED)
    await store.change(store.ref.pk, keys.META_SK, status=status)
    if status is None:
        key = {"pk": {"S": store.ref.pk}, "sk": {"S": keys.META_SK}}
        await store.client.delete_item(TableName=store.table.name, Key=key)
    assert (await reconcile_job(pass_context(store), job)).total() == 0
    assert (await store.item())["status"] == "PENDING"


@pytest.mark.parametrize(
    ("until", "new", "left"),
    [
        (PASSED, None, None),
        (AHEAD, None, AHEAD),
        (None, None, None),
        (PASSED, iso(NOW + 60), iso(NOW + 60)),
        (AHEAD, iso(NOW + 60), iso(NOW + 60)),
    ],
)
async def test_a_job_is_reopened_without_the_deadline_that_passed(
    store: Store, until: str | None, new: str | None, left: str | None
) -> None:
    facts = {"deadline_at": until} if until else {}
    job = await store.put_job(S.CANCELLED, **facts)
    assert await store.transitions.reopen(job, {"deadline_at": new} if new else {}) == 3
    item = await store.item(store.ref.pk, keys.META_SK)
    assert item.get("deadline_at") == left
