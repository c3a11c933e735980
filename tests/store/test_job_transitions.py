"""A job moves along its states, from the one it is in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.pause import Pause
from piecework.domain.states import JobStatus
from piecework.store.table import Written
from tests.store.conftest import NOW, Store
from tests.store.table import Case, of_job

JobWrite = Callable[[Store, Job], Awaitable[Any]]
S = JobStatus


async def open_job(store: Store, job: Job) -> Any:
    return await store.transitions.open(job.ref, job.gen)


async def sent(store: Store, job: Job) -> Any:
    return await store.transitions.sent(job.ref, job.gen)


async def sent_paused(store: Store, job: Job) -> Any:
    return await store.transitions.sent(job.ref, job.gen, S.PAUSED)


async def finalize(store: Store, job: Job) -> Any:
    return await store.transitions.finalize(job, {"stage": "join"})


async def ending(store: Store, job: Job) -> Any:
    actions = await store.transitions.ending(
        job, S.PARTIAL, {"certificate": "c", "outcomes": {}}
    )
    return isinstance(await store.table.transact(actions), Written)


async def reopen_job(store: Store, job: Job) -> Any:
    facts = {"reopened_by": "me", "reopen_reason": "why"}
    return await store.transitions.reopen(job, facts) == job.gen + 1


async def reopened(store: Store, job: Job) -> Any:
    return await store.transitions.reopened(job)


async def stop_starting(store: Store, job: Job) -> Any:
    return await store.transitions.stop_starting(job, 3)


async def count_failures(store: Store, gen: int, *chunks: int) -> int:
    for chunk in chunks:
        count = store.transitions.counting_failure(store.ref.chunk(chunk), gen)
        await store.table.transact([count])
    return await store.transitions.failed_chunks(store.ref, gen)


async def pause_job(store: Store, job: Job) -> Any:
    return await store.transitions.pause(job, Pause("operator", "why", "me"))


async def resume_job(store: Store, job: Job) -> Any:
    return await store.transitions.resume(job, "me", "now")


async def cancel_job(store: Store, job: Job) -> Any:
    return await store.transitions.cancel(
        job, {"cancelled_by": "me", "cancel_reason": "why"}
    )


async def cancelled(store: Store, job: Job) -> Any:
    return await store.transitions.cancelled(job, {"certificate": "c"})


#: A write, the state it is for, the one that it leaves, and by how much gen rises.
JOB_WRITES: list[tuple[JobWrite, JobStatus, JobStatus, int]] = [
    (open_job, S.SUBMITTING, S.RUNNING, 0),
    (sent, S.RUNNING, S.RUNNING, 0),
    (sent_paused, S.PAUSED, S.PAUSED, 0),
    (finalize, S.RUNNING, S.FINALIZING, 0),
    (ending, S.FINALIZING, S.PARTIAL, 0),
    (reopen_job, S.PARTIAL, S.REOPENING, 1),
    (reopen_job, S.CANCELLED, S.REOPENING, 1),
    (reopened, S.REOPENING, S.SUBMITTING, 0),
    (stop_starting, S.RUNNING, S.RUNNING, 0),
    (pause_job, S.RUNNING, S.PAUSED, 0),
    (resume_job, S.PAUSED, S.RUNNING, 0),
    (cancel_job, S.SUBMITTING, S.CANCELLING, 0),
    (cancel_job, S.RUNNING, S.CANCELLING, 0),
    (cancel_job, S.PAUSED, S.CANCELLING, 0),
    (cancel_job, S.REOPENING, S.CANCELLING, 0),
    (cancelled, S.CANCELLING, S.CANCELLED, 0),
]


def case_of(write: JobWrite, source: S, target: S, raised: int) -> Case:
    # The messages of a job may be sent by one that found it RUNNING, or PAUSED.
    also = {S.PAUSED} if write is sent else set()
    others = set(S) - {source, target} - also
    inherited = {"pause_until": None} if raised else {}
    return Case(
        name=f"{write.__name__} {source}",
        before=lambda store: store.put_job(source, pause_until=iso(NOW)),
        key=of_job,
        act=write,
        left={"status": target, "gen": 2 + raised, **inherited},
        moved=[{"gen": 3}, *({"status": status} for status in sorted(others))],
        requests=1,
    )


CASES = [case_of(*row) for row in JOB_WRITES]


async def test_a_dead_letter_is_counted_in_its_own_generation(store: Store) -> None:
    # Chunks 1 and 33 share a counter.
    assert await count_failures(store, 2, 1, 33, 7) == 3
    assert await count_failures(store, 3) == 0


async def test_an_operator_accepts_newer_code_only_for_a_job(store: Store) -> None:
    facts = {"changes_accepted_at": iso(NOW), "changes_accepted_by": "me"}
    with store.unchanged():
        assert not await store.transitions.accept_changes(store.ref, facts)
    await store.put_job(S.RUNNING)
    assert await store.transitions.accept_changes(store.ref, facts)
    job = await store.jobs.read(store.ref)
    assert ("me", iso(NOW)) == (job.changes_accepted_by, job.changes_accepted_at)


async def end_by_pause(store: Store, job: Job) -> Any:
    return await store.transitions.pause(job, Pause("sample", "it has ended", "sample"))


async def end_by_release(store: Store, job: Job) -> Any:
    return await store.transitions.release_rest(job, "me", "go on")


@pytest.mark.parametrize(
    ("end", "status"), [(end_by_pause, S.PAUSED), (end_by_release, S.RUNNING)]
)
async def test_a_sample_ends_once_and_its_rest_is_held_until_a_resume(
    store: Store, end: JobWrite, status: S
) -> None:
    job = await store.put_job(S.RUNNING, rest_held=True, sample=[1])
    assert await end(store, job) is True
    ended = await store.jobs.read(store.ref)
    assert (ended.status, ended.holds_rest) == (status, status is S.PAUSED)
    if status is S.PAUSED:
        assert await store.transitions.resume(ended, "me", "now") is True
        ended = await store.jobs.read(store.ref)
    assert not ended.holds_rest
    assert (False, {}) == await store.does(end(store, job))  # as a late process would


@pytest.mark.parametrize("later", [{"paused_at": iso(NOW)}, {"pause_code": "budget"}])
async def test_a_resume_does_not_end_a_later_pause(store: Store, later: Any) -> None:
    job = await store.put_job(S.PAUSED)
    await store.change(store.ref.pk, keys.META_SK, **later)
    assert (False, {}) == await store.does(store.transitions.resume(job, "me", "now"))


@pytest.mark.parametrize("resumed", [{}, {"resumed_at": iso(NOW - 5)}])
async def test_a_late_pause_does_not_follow_a_resume(
    store: Store, resumed: Any
) -> None:
    job = await store.put_job(S.RUNNING, **resumed)
    await store.change(store.ref.pk, keys.META_SK, resumed_at=iso(NOW))
    assert (False, {}) == await store.does(pause_job(store, job))


async def test_messages_of_an_earlier_resume_do_not_count_for_a_later_one(
    store: Store,
) -> None:
    job = await store.put_job(S.RUNNING, resumed_at=iso(NOW - 5))
    assert job.resume_is_unsent
    await store.change(store.ref.pk, keys.META_SK, resumed_at=iso(NOW))
    with store.unchanged():
        await store.transitions.redispatched(job)
    await store.transitions.redispatched(await store.jobs.read(store.ref))
    assert not (await store.jobs.read(store.ref)).resume_is_unsent


async def test_a_job_that_had_opened_is_resumed_to_running(store: Store) -> None:
    job = await store.put_job(S.REOPENING, opened_at=iso(NOW))
    assert await store.transitions.reopened(job) is True
    assert (await store.item(store.ref.pk, keys.META_SK))["status"] == "RUNNING"


@pytest.mark.parametrize(("gen", "done"), [(1, True), (2, False), (3, False)])
async def test_a_join_is_made_once_a_generation(
    store: Store,
    gen: int,
    done: bool,  # noqa: FBT001
) -> None:
    job = await store.put_job(S.RUNNING)
    await store.put(store.ref.pk, "JOIN", status="DEAD", gen=gen)
    answer, changed = await store.does(finalize(store, job))
    assert (answer, bool(changed)) == (done, done)


async def test_a_job_that_ends_leaves_the_list_of_the_active(store: Store) -> None:
    async def active() -> bool:
        return store.ref in [ref async for ref in store.jobs.active()]

    job = await store.put_job(S.PARTIAL)
    assert await active() is False
    await reopen_job(store, job)
    assert await active() is True
    await store.change(store.ref.pk, keys.META_SK, status="FINALIZING", gen=2)
    await ending(store, job)
    assert await active() is False
