"""A pipeline's hook is called for its job, even if the first worker dies."""

from __future__ import annotations

import asyncio

import pytest

from piecework.domain.states import CANCELLABLE, JobStatus
from piecework.store.notifications import ABANDONED, DELIVERED
from piecework_worker import notifier
from piecework_worker.work_item import MessageAction
from tests.unit.piecework.fakes import Killed
from tests.unit.virtual import run_virtually
from tests.unit.workers.notified import LEASE_S, SKEW_S, Notified, not_now
from tests.unit.workers.virtual_leases import virtually

S = JobStatus


# ── what there is to tell ────────────────────────────────────────────────────


@virtually
async def test_an_ended_job_is_notified_of_and_closed() -> None:
    job = Notified()
    await job.becomes(S.PARTIAL, "ended")
    assert MessageAction.DELETE is await job.notify_job()
    (notice,) = job.heard
    assert ("ended", "PARTIAL", "job") == (notice.event, notice.status, notice.job)
    assert DELIVERED == (await job.notice())["state"]
    assert ["notification.delivered"] == job.log.names()
    assert [] == job.hidden
    assert not await job.listed()


@virtually
async def test_a_job_past_its_deadline_is_notified_of_and_stays_listed() -> None:
    job = Notified()
    await job.becomes(S.CANCELLING, "deadline")
    assert MessageAction.DELETE is await job.notify_job()
    assert ["deadline"] == job.events()
    assert await job.listed()


@virtually
async def test_a_delivered_notification_is_not_written_again() -> None:
    job = Notified()
    await job.becomes(S.CANCELLING, "deadline")
    await job.notify_job()
    job.client.asked.clear()
    assert MessageAction.DELETE is await job.notify_job()
    assert ["deadline"] == job.events()
    assert {"get_item", "query"} == set(job.client.asked)


@virtually
async def test_the_end_is_notified_after_the_deadline() -> None:
    job = Notified()
    await job.becomes(S.CANCELLING, "deadline")
    await job.notify_job()
    await job.becomes(S.CANCELLED, "ended")
    assert MessageAction.DELETE is await job.notify_job()
    assert ["deadline", "ended"] == job.events()
    assert not await job.listed()


@virtually
async def test_a_work_item_of_a_missing_job_is_left_to_the_join() -> None:
    assert await Notified().notify_job() is None


@virtually
async def test_a_join_that_has_not_run_yet_runs() -> None:
    job = Notified()
    await job.becomes(S.FINALIZING)
    assert await job.notify_job() is None
    assert await job.listed()


@pytest.mark.parametrize("status", sorted(CANCELLABLE))
def test_a_reopened_job_is_notified_of_at_its_next_end(
    status: JobStatus,
) -> None:
    async def main() -> None:
        job = Notified()
        await job.becomes(S.PARTIAL, "ended")
        await job.becomes(status, gen=2)
        assert MessageAction.DELETE is await job.notify_job()
        assert [] == job.heard
        await job.becomes(S.SUCCEEDED, "ended", gen=2)
        assert MessageAction.DELETE is await job.notify_job()
        assert ["PARTIAL", "SUCCEEDED"] == [notice.status for notice in job.heard]

    run_virtually(main())


@virtually
async def test_the_hook_hears_of_the_last_end_last() -> None:
    job = Notified()
    await job.becomes(S.PARTIAL, "ended")
    job.trouble = not_now
    assert MessageAction.KEEP is await job.notify_job()
    job.trouble = None
    await job.becomes(S.SUCCEEDED, "ended", gen=2)
    assert MessageAction.KEEP is await job.notify_job()
    await asyncio.sleep(job.hidden[-1])
    assert MessageAction.DELETE is await job.notify_job()
    assert ["PARTIAL", "PARTIAL", "SUCCEEDED"] == [n.status for n in job.heard]


# ── several workers, and those that die ──────────────────────────────────────


@virtually
async def test_of_two_workers_one_notifies_and_the_other_backs_off() -> None:
    job = Notified()
    await job.becomes(S.SUCCEEDED, "ended")
    job.trouble = lambda: asyncio.sleep(10.0)
    first = asyncio.create_task(job.notify_job())
    await asyncio.sleep(1.0)
    assert MessageAction.KEEP is await job.notify_job()
    assert [pytest.approx(LEASE_S + SKEW_S - 1.0)] == job.hidden
    assert MessageAction.DELETE is await first
    assert ["ended"] == job.events()


@virtually
async def test_another_worker_repeats_the_notification_of_a_dead_worker() -> None:
    job = Notified()
    await job.becomes(S.SUCCEEDED, "ended")
    await dies_telling(job)
    await asyncio.sleep(LEASE_S + SKEW_S)
    job.trouble = None
    assert MessageAction.DELETE is await job.notify_job()
    assert ["ended", "ended"] == job.events()
    assert not await job.listed()


@virtually
async def test_a_hook_that_kills_each_worker_is_abandoned() -> None:
    job = Notified()
    await job.becomes(S.SUCCEEDED, "ended")
    for _ in range(notifier.MAX_ATTEMPTS):
        await dies_telling(job)
        await asyncio.sleep(LEASE_S + SKEW_S)
    assert MessageAction.DELETE is await job.notify_job()
    assert notifier.MAX_ATTEMPTS == len(job.heard)
    row = await job.notice()
    said = "each attempt died with its worker"
    assert (ABANDONED, said) == (row["state"], row["last_error"])
    assert not await job.listed()


async def dies_telling(job: Notified) -> None:
    """Notify of a job by a worker whose hook kills it."""

    async def kill() -> None:
        raise Killed

    job.trouble = kill
    with pytest.raises(Killed):
        await job.notify_job()
