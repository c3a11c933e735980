"""Cancel a job: its record, then each of its chunks."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator import cancel as cancelling
from orchestrator.cancel import cancel
from piecework import keys
from piecework import sweep as sweeping
from piecework.errors import NotFoundError, UsageError
from piecework.model import JobStatus
from piecework.sweep import sweep
from tests.store.conftest import Store
from tests.store.deployment import runtime

RUNNING = {"status": "RUNNING", "fence": 4, "heartbeat": 7}


@pytest.fixture(autouse=True)
def finished(monkeypatch: pytest.MonkeyPatch) -> None:
    async def finish(*_: Any) -> bool:
        return False

    monkeypatch.setattr(sweeping, "finish_cancel", finish)


@pytest.mark.parametrize(
    ("state", "counts", "change"),
    [
        ({}, (1, 0), {"status": "CANCELLED"}),
        ({"status": "WAITING"}, (1, 0), {"status": "CANCELLED"}),
        (RUNNING, (0, 1), {"cancel_requested": True}),
        ({**RUNNING, "cancel_requested": True}, (0, 0), {}),
        ({**RUNNING, "direction": "compensating"}, (0, 0), {}),
        ({"status": "WAITING", "direction": "compensating"}, (0, 0), {}),
        ({"gen": 3}, (0, 0), {}),
        ({**RUNNING, "gen": 3}, (0, 0), {}),
        ({"status": "SUCCEEDED"}, (0, 0), {}),
        ({"status": "DEAD"}, (0, 0), {}),
    ],
)
async def test_a_sweep_cancels_what_is_free_and_asks_who_holds(
    store: Store, state: dict[str, Any], counts: Any, change: dict[str, Any]
) -> None:
    await store.put_chunk(**state)
    before = await store.item()
    job = await store.put_job(JobStatus.CANCELLING)
    assert counts == await sweep(runtime(store), job)
    after = await store.item()
    assert change.items() <= after.items()
    assert change or before == after


@pytest.mark.parametrize("status", sorted(cancelling.CANCELLABLE))
async def test_a_job_that_has_not_ended_is_cancelled_with_who_and_why(
    store: Store, status: JobStatus
) -> None:
    await store.put_job(status)
    job = await cancel(runtime(store), store.ref, actor="me", reason="enough")
    assert job.status is JobStatus.CANCELLING
    events = await store.jobs.events(store.ref)
    assert [(e["event"], e["actor"]) for e in events] == [("cancelled", "me")]


async def test_a_second_cancel_sweeps_again_and_says_nothing_new(store: Store) -> None:
    await store.put_job(JobStatus.CANCELLING)
    await store.put_chunk()
    await cancel(runtime(store), store.ref, actor="me", reason="enough")
    assert (await store.item())["status"] == "CANCELLED"
    assert await store.jobs.events(store.ref) == []


async def test_a_job_that_is_not_there_is_not_found(store: Store) -> None:
    with pytest.raises(NotFoundError):
        await cancel(runtime(store), store.ref, actor="me", reason="")


@pytest.mark.parametrize("status", [JobStatus.FINALIZING, JobStatus.SUCCEEDED])
async def test_a_job_that_is_past_it_is_refused(
    store: Store, status: JobStatus
) -> None:
    await store.put_job(status)
    await store.put_chunk()
    with pytest.raises(UsageError) as caught:
        await cancel(runtime(store), store.ref, actor="me", reason="")
    assert caught.value.code == "job.state.not_cancellable"
    assert (await store.item())["status"] == "PENDING"


async def test_a_cancel_that_lost_a_race_looks_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.put_job(JobStatus.RUNNING)
    rt = runtime(store)
    read = rt.jobs.read

    async def read_and_move(ref: Any) -> Any:
        job = await read(ref)
        await store.change(store.ref.pk, keys.META_SK, status=JobStatus.SUCCEEDED)
        return job

    monkeypatch.setattr(type(rt.jobs), "read", lambda _, ref: read_and_move(ref))
    with pytest.raises(UsageError):
        await cancel(rt, store.ref, actor="me", reason="")
    assert await store.jobs.events(store.ref) == []
