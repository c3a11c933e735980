"""Which messages start nothing, by the record of their job."""

from __future__ import annotations

from asyncio import gather
from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.moments import iso
from piecework.domain.states import JobStatus
from piecework_worker import cancelled_jobs
from piecework_worker.cancelled_jobs import CancelledGroups, reason_not_to_claim
from tests.store.conftest import NOW, Store
from tests.store.deployment import runtime

RUNNING = {"status": "RUNNING", "fence": 4, "renewals": 7}
BACK = {"status": "WAITING", "fence": 4, "direction": "compensating"}
ASKED = {"cancel_requested_at": iso(NOW)}
UNDO = {"cancel_compensates": True}


async def reason(store: Store, job: Any, gen: int = 2, groups: Any = None) -> str:
    known = groups or CancelledGroups()
    return await reason_not_to_claim(store.chunk, gen, job, runtime(store), known)


@pytest.mark.parametrize(
    ("status", "gen", "expected"),
    [
        (JobStatus.RUNNING, 2, ""),
        (JobStatus.RUNNING, 1, "superseded"),
        (JobStatus.REOPENING, 1, "superseded"),
        (JobStatus.FINALIZING, 2, ""),
        (JobStatus.PAUSED, 2, "paused"),
        (JobStatus.DELETING, 2, "job deleted"),
        (JobStatus.CANCELLED, 2, "ended"),
        (JobStatus.PARTIAL, 2, "ended"),
        (JobStatus.PARTIAL, 3, ""),
        (JobStatus.CANCELLING, 3, ""),
    ],
)
async def test_a_message_starts_nothing_in_a_later_or_an_ended_generation(
    store: Store, status: JobStatus, gen: int, expected: str
) -> None:
    await store.put_chunk()
    job = await store.put_job(status, cancelled_at=iso(NOW))
    assert expected == await reason(store, job, gen)
    assert (await store.item())["status"] == "PENDING"


async def test_a_join_is_left_to_its_own_record(store: Store) -> None:
    join = store.ref.chunk(keys.JOIN_CHUNK)
    job = await store.put_job(JobStatus.SUCCEEDED)
    groups = CancelledGroups()
    assert "" == await reason_not_to_claim(join, 1, job, runtime(store), groups)


@pytest.mark.parametrize(
    ("state", "job_facts", "expected", "change"),
    [
        ({}, {}, "cancelled", {}),
        ({}, {"stopped_code": "job.tolerance.exceeded"}, "cancelled", {}),
        ({"status": "WAITING", "fence": 4}, {}, "cancelled", {}),
        ({"status": "SUCCEEDED"}, {}, "cancelled", {}),
        (BACK | {"status": "DEAD"}, {}, "cancelled", {}),
        (RUNNING, {}, "", ASKED),
        (RUNNING | {"direction": "compensating"}, {}, "", {}),
        (BACK, {}, "", {}),
        ({"gen": 3}, {}, "", {}),
        ({}, UNDO, "", {"status": "CANCELLED"}),
        ({"status": "WAITING", "fence": 4}, UNDO, "", {"compensate_requested": True}),
        (BACK, UNDO, "", {}),
    ],
)
async def test_a_chunk_of_a_cancelled_job_is_claimed_only_after_a_sweep_of_it(
    store: Store,
    state: dict[str, Any],
    job_facts: dict[str, Any],
    expected: str,
    change: dict[str, Any],
) -> None:
    await store.put_chunk(**state)
    before = await store.item()
    facts = {"cancelled_at": iso(NOW), **job_facts}
    job = await store.put_job(JobStatus.CANCELLING, **facts)
    assert expected == await reason(store, job)
    after = await store.item()
    assert change.items() <= after.items()
    assert change or before == after


async def test_a_chunk_that_is_not_there_is_left_to_its_claim(store: Store) -> None:
    facts = {"cancelled_at": iso(NOW), **UNDO}
    assert "" == await reason(store, await store.put_job(JobStatus.CANCELLING, **facts))


async def test_a_paused_job_is_left_to_its_owners_and_compensations(
    store: Store,
) -> None:
    job = await store.put_job(JobStatus.PAUSED)
    for state, expected in [(RUNNING, "paused"), (BACK, "")]:
        await store.put_chunk(**state)
        assert expected == await reason(store, job)


async def test_one_read_answers_for_all_chunks_of_a_group(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancelled_jobs, "MAX_GROUPS", 2)
    await store.put_chunk()
    job = await store.put_job(JobStatus.CANCELLING, cancelled_at=iso(NOW))
    groups = CancelledGroups()
    both = [reason(store, job, groups=groups) for _ in range(2)]
    assert ["cancelled"] * 2 == await gather(*both)
    await store.put_chunk(**RUNNING)
    rt, other = runtime(store), store.ref.chunk(keys.PARTITION_SIZE)
    assert not await groups.may_need_worker(rt, other, 2)
    assert "cancelled" == await reason(store, job, groups=groups)
    assert "" == await reason(store, job)
    assert not await groups.may_need_worker(rt, other, 3)  # one group too many
    assert "" == await reason(store, job, groups=groups)
