"""A hook that fails is retried, later each time, and abandoned in the end."""

from __future__ import annotations

import asyncio

import pytest

from piecework.domain.states import JobStatus
from piecework.store.notifications import ABANDONED, PENDING
from piecework_worker import notifier
from piecework_worker.work_item import MessageAction
from tests.unit.workers.notified import LEASE_S, Notified, not_now
from tests.unit.workers.virtual_leases import for_ever, time, virtually

S = JobStatus


@virtually
async def test_a_hook_that_fails_is_tried_again_when_its_message_shows() -> None:
    job = Notified()
    await job.becomes(S.SUCCEEDED, "ended")
    job.trouble = not_now
    assert MessageAction.KEEP is await job.notify_job()
    assert [pytest.approx(4.0)] == job.hidden
    assert "tool.stock.busy: not now" == (await job.notice())["last_error"]
    assert ["notification.failed"] == job.log.names()
    assert await job.listed()

    job.trouble = None
    await asyncio.sleep(4.0)
    assert MessageAction.DELETE is await job.notify_job()
    first, again = job.heard
    assert first == again  # its idempotency key with it
    assert not await job.listed()


@virtually
async def test_an_early_message_waits_and_calls_no_hook() -> None:
    job = Notified()
    await job.becomes(S.SUCCEEDED, "ended")
    job.trouble = not_now
    await job.notify_job()
    await asyncio.sleep(0.5)
    assert MessageAction.KEEP is await job.notify_job()
    assert [pytest.approx(4.0), pytest.approx(3.5)] == job.hidden
    assert 1 == len(job.heard)


@virtually
async def test_a_hook_that_always_fails_is_retried_later_each_time_then_abandoned() -> (
    None
):
    job = Notified()
    await job.becomes(S.SUCCEEDED, "ended")
    job.trouble = not_now
    for wait in (4.0, 16.0, 64.0, 256.0, 300.0):
        assert MessageAction.KEEP is await job.notify_job()
        assert pytest.approx(wait) == job.hidden[-1]
        await asyncio.sleep(wait)
    assert MessageAction.DELETE is await job.notify_job()
    assert notifier.MAX_ATTEMPTS == len(job.heard)
    row = await job.notice()
    assert (ABANDONED, "tool.stock.busy: not now") == (row["state"], row["last_error"])
    assert not await job.listed()
    assert "notification.abandoned" == job.log.names()[-1]


@virtually
async def test_a_hook_that_hangs_has_failed_after_a_lease() -> None:
    job = Notified()
    await job.becomes(S.SUCCEEDED, "ended")
    job.trouble = for_ever
    began = time()
    assert MessageAction.KEEP is await job.notify_job()
    assert pytest.approx(LEASE_S) == time() - began
    assert PENDING == (await job.notice())["state"]


@virtually
async def test_a_pipeline_without_its_hook_abandons_the_notification() -> None:
    job = Notified(hook=False)
    await job.becomes(S.SUCCEEDED, "ended")
    assert MessageAction.DELETE is await job.notify_job()
    row = await job.notice()
    assert (ABANDONED, "the hook is gone") == (row["state"], row["last_error"])
    assert not await job.listed()
