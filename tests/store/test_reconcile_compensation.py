"""What the reconciler does for a cancel that compensates, and for notifications."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.aws.queue import Delivery, Message
from piecework.domain import keys
from piecework.domain.moments import iso
from piecework.domain.states import JobStatus
from piecework.reconciler.dead_letter_queue import handle
from piecework.reconciler.jobs import (
    dispatch_notifications,
    finish_cancelling,
    reconcile_job,
)
from piecework.store.notifications import DELIVERED, PENDING
from tests.store.conftest import NOW, SETTINGS, Store
from tests.store.deployment import LOG, pass_context, runtime, sent

LEASE = SETTINGS.lease_s
ASKED = {"cancel_requested_at": iso(NOW), "compensate_requested": True}
RUNNING = {"status": "RUNNING", "fence": 4, "renewals": 7, "attempts": 1}


async def compensating(store: Store) -> Any:
    facts = {"cancelled_at": iso(NOW), "cancel_compensates": True}
    return await store.put_job(JobStatus.CANCELLING, **facts)


@pytest.mark.parametrize(
    ("state", "seen", "status", "messages"),
    [
        # Requested first, even if the owner was seen dead: its effects do not stay.
        (RUNNING, LEASE, "RUNNING", 0),
        ({**RUNNING, **ASKED}, LEASE - 1, "RUNNING", 0),
        ({**RUNNING, **ASKED}, LEASE, "WAITING", 1),
        (
            {"status": "WAITING", "fence": 4, **ASKED, "redispatch_at": iso(NOW)},
            0,
            "WAITING",
            1,
        ),
        (
            {"status": "WAITING", "fence": 4, **ASKED, "redispatch_at": iso(NOW + 1)},
            0,
            "WAITING",
            0,
        ),
        (
            {
                "status": "WAITING",
                "fence": 4,
                "direction": "forward",
                "redispatch_at": iso(NOW),
            },
            0,
            "WAITING",
            1,
        ),
    ],
)
async def test_a_chunk_with_a_compensation_request_is_never_only_cancelled(
    store: Store, state: dict[str, Any], seen: float, status: str, messages: int
) -> None:
    await store.put_chunk(**state)
    here = pass_context(store, seen)
    await finish_cancelling(here, await compensating(store))
    await here.send()
    assert (await store.item())["status"] == status
    assert len(sent(here.rt)) == messages


async def test_an_expired_lease_without_a_request_gets_a_compensation_request(
    store: Store,
) -> None:
    await store.put_chunk(**RUNNING)
    here, job = pass_context(store, LEASE), await compensating(store)
    await finish_cancelling(here, job, sweeps=True)
    assert ASKED.items() <= (await store.item()).items()


async def a_notification(store: Store, **facts: Any) -> None:
    item = {
        "event": "ended",
        "gen": 2,
        "state": PENDING,
        "due_at": iso(NOW),
        "redispatch_at": iso(NOW),
        "attempts": 0,
    }
    await store.put(store.ref.pk, keys.notification_sk(2, "ended"), **(item | facts))


@pytest.mark.parametrize(
    ("facts", "messages"),
    [
        ({}, 1),
        ({"due_at": iso(NOW + 1)}, 0),
        ({"redispatch_at": iso(NOW + 1)}, 0),
        ({"state": DELIVERED}, 0),
    ],
)
@pytest.mark.parametrize("status", [JobStatus.CANCELLED, JobStatus.CANCELLING])
async def test_a_notice_that_is_due_is_sent_to_a_worker_once(
    store: Store, facts: dict[str, Any], messages: int, status: JobStatus
) -> None:
    job = await store.put_job(status, has_notify_hook=True, cancelled_at=iso(NOW))
    await a_notification(store, **facts)
    here = pass_context(store)
    await dispatch_notifications(here, job)
    await dispatch_notifications(here, job)
    join = store.ref.chunk(keys.JOIN_CHUNK)
    assert sent(here.rt) == [Message.about(join, 2)] * messages


async def test_of_several_notifications_each_counts(store: Store) -> None:
    job = await store.put_job(
        JobStatus.CANCELLED, has_notify_hook=True, cancelled_at=iso(NOW)
    )
    for event in ("deadline", "ended"):
        facts = {"event": event, "gen": 2, "state": PENDING, "due_at": iso(NOW)}
        row = facts | {"redispatch_at": iso(NOW), "attempts": 1}
        await store.put(store.ref.pk, keys.notification_sk(2, event), **row)
    done = await dispatch_notifications(pass_context(store), job)
    assert {"notification dispatched": 2} == done


async def test_a_worker_beside_is_given_it_without_a_message(store: Store) -> None:
    job = await store.put_job(JobStatus.CANCELLED, has_notify_hook=True)
    await a_notification(store)
    taken: list[Any] = []

    async def take(*turn: Any) -> bool:
        taken.append(turn)
        return True

    here = pass_context(store)
    object.__setattr__(here, "offer", take)
    assert (await dispatch_notifications(here, job)).total() == 0
    assert taken == [(store.ref.chunk(keys.JOIN_CHUNK), 2)]
    assert sent(here.rt) == []


@pytest.mark.parametrize(
    ("status", "told", "closed"),
    [
        (JobStatus.CANCELLED, True, 1),
        (JobStatus.CANCELLED, False, 0),
        (JobStatus.CANCELLING, True, 0),
    ],
)
async def test_a_job_is_closed_after_its_end_and_its_last_notification(
    store: Store, status: JobStatus, closed: int, *, told: bool
) -> None:
    job = await store.put_job(status, has_notify_hook=True, cancelled_at=iso(NOW))
    await a_notification(store, **({"state": DELIVERED} if told else {}))
    acts = await dispatch_notifications(pass_context(store), job)
    assert acts["job closed"] == closed


async def test_an_ended_job_without_a_hook_has_no_notifications(store: Store) -> None:
    job = await store.put_job(JobStatus.CANCELLED)
    await a_notification(store)
    here = pass_context(store)
    assert (await reconcile_job(here, job)).total() == 0
    assert sent(here.rt) == []


@pytest.mark.parametrize(("has_notify_hook", "kept"), [(True, 0), (False, 1)])
async def test_the_message_of_a_notification_is_not_an_orphan(
    store: Store, *, has_notify_hook: bool, kept: int
) -> None:
    await store.put_job(JobStatus.CANCELLED, has_notify_hook=has_notify_hook)
    join = Message.about(store.ref.chunk(keys.JOIN_CHUNK), 2)
    delivery = Delivery(join, f"join {store.ref.job}", "receipt", "id", 11)
    await handle(runtime(store), delivery, LOG)
    pages = store.dead_letter_table.query("QUARANTINE")
    ours = keys.sha256(delivery.body.encode())
    held = [row async for row in pages if row["body_sha256"] == ours]
    assert len(held) == kept
