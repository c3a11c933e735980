"""Cancel a job: its record, then each of its chunks."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.aws.queue import Message
from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.claim import CancelPending
from piecework.domain.moments import iso
from piecework.domain.protocols import CancelRequest
from piecework.domain.refs import JobRef
from piecework.domain.states import CANCELLABLE, JobStatus
from piecework.errors import NotFoundError, UsageError
from piecework.jobs import cancellation as sweeping
from piecework.jobs.cancellation import sweep
from piecework_orchestrator.operate.cancel import cancel
from tests.store.conftest import NOW, SETTINGS, Store
from tests.store.deployment import runtime, sent
from tests.store.writes import Write, defer, schedule_retry

UNDO = {"cancel_requested_at": iso(NOW), "compensate_requested": True}
RUNNING = {"status": "RUNNING", "fence": 4, "renewals": 7}
#: It was asked to stop while it ran, and waits for a retry.
RETRYING = {"status": "WAITING", "fence": 4, "retry_at": iso(NOW + 60), **UNDO}


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
        ({"status": "WAITING", "fence": 4}, (1, 0), {"status": "CANCELLED"}),
        (RUNNING, (0, 1), {"cancel_requested_at": iso(NOW)}),
        ({**RUNNING, "cancel_requested_at": True}, (0, 0), {}),
        ({**RUNNING, "direction": "compensating"}, (0, 0), {}),
        ({"status": "WAITING", "direction": "compensating"}, (0, 0), {}),
        ({"gen": 3}, (0, 0), {}),
        ({**RUNNING, "gen": 3}, (0, 0), {}),
        ({"status": "SUCCEEDED"}, (0, 0), {}),
        ({"status": "DEAD"}, (0, 0), {}),
    ],
)
async def test_a_sweep_cancels_unowned_chunks_and_requests_owners_to_stop(
    store: Store, state: dict[str, Any], counts: Any, change: dict[str, Any]
) -> None:
    await store.put_chunk(**state)
    before = await store.item()
    job = await store.put_job(JobStatus.CANCELLING, cancelled_at=iso(NOW))
    assert counts == await sweep(runtime(store), job)
    after = await store.item()
    assert change.items() <= after.items()
    assert change or before == after
    assert "compensate_requested" not in after


async def test_a_chunk_that_changes_under_a_sweep_does_not_keep_the_others_open(
    store: Store,
) -> None:
    seen = [await store.put_chunk()]
    for number in range(4):
        ref = store.ref.chunk(number)
        item = {"v": 1, "status": "PENDING", "gen": 2, "fence": 0, "attempts": 0}
        await store.put(ref.pk, ref.sk, **item, stage="first", chunk=number)
        seen.append(Chunk.read(ref, {**item, "stage": "first", "chunk": number}))
    await store.put_chunk(**RUNNING)
    now = CancelRequest(iso(NOW), compensate=False)
    cancel_sweep = sweeping.CancelSweep(runtime(store), now)
    await cancel_sweep.sweep_all([seen[1], seen[2], seen[0], seen[3]])
    assert (3, 1) == (cancel_sweep.cancelled, cancel_sweep.requested)
    assert (await store.item())["cancel_requested_at"] == iso(NOW)


async def test_a_sweep_ends_the_job_if_it_may(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = []

    async def finish(_: Any, ref: JobRef) -> bool:
        ended.append(ref)
        return True

    monkeypatch.setattr(sweeping, "finish_cancel", finish)
    job = await store.put_job(JobStatus.CANCELLING, cancelled_at=iso(NOW))
    await sweep(runtime(store), job)
    assert [store.ref] == ended


async def test_a_sweep_skips_a_chunk_that_no_longer_exists(store: Store) -> None:
    seen = await store.put_chunk()
    await store.drop()
    cancel_sweep = sweeping.CancelSweep(
        runtime(store), CancelRequest(iso(NOW), compensate=False)
    )
    await cancel_sweep.sweep(seen)
    assert (0, 0) == (cancel_sweep.cancelled, cancel_sweep.requested)


@pytest.mark.parametrize(
    ("state", "asked", "change"),
    [
        (RUNNING, 1, {"cancel_requested_at": iso(NOW)}),
        ({"status": "SUCCEEDED", "fence": 4}, 0, {}),
        ({**RUNNING, "gen": 3}, 0, {}),
        ({**RUNNING, "direction": "compensating"}, 0, {}),
    ],
)
async def test_a_chunk_claimed_during_a_sweep_gets_the_request_at_once(
    store: Store, state: dict[str, Any], asked: int, change: dict[str, Any]
) -> None:
    seen = await store.put_chunk()
    await store.put_chunk(**state)
    cancel_sweep = sweeping.CancelSweep(
        runtime(store), CancelRequest(iso(NOW), compensate=False)
    )
    await cancel_sweep.sweep(seen)
    assert (0, asked) == (cancel_sweep.cancelled, cancel_sweep.requested)
    after = await store.item()
    assert change.items() <= after.items()
    assert bool(change) == ("cancel_requested_at" in after)


@pytest.mark.parametrize("status", sorted(CANCELLABLE))
async def test_a_cancelled_job_has_the_operator_and_the_reason(
    store: Store, status: JobStatus
) -> None:
    await store.put_job(status, opened_at=iso(NOW))
    job = await cancel(runtime(store), store.ref, actor="me", reason="enough")
    assert job.status is JobStatus.CANCELLING
    events = await store.jobs.events(store.ref)
    assert [(e.event, e.facts["actor"]) for e in events] == [("cancelled", "me")]


async def test_a_second_cancel_sweeps_again_and_says_nothing_new(store: Store) -> None:
    await store.put_job(JobStatus.CANCELLING, cancelled_at=iso(NOW))
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


async def test_a_repeated_cancel_of_a_cancelled_job_succeeds(store: Store) -> None:
    await store.put_job(JobStatus.CANCELLED)
    job = await cancel(runtime(store), store.ref, actor="me", reason="")
    assert JobStatus.CANCELLED is job.status


async def test_a_cancel_that_lost_a_race_reads_again(
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


@pytest.mark.parametrize(
    ("state", "counts", "change"),
    [
        ({}, (1, 0), {"status": "CANCELLED"}),
        ({"fence": 4}, (0, 1), UNDO),
        ({"status": "WAITING", "fence": 4, "retry_at": iso(NOW + 60)}, (0, 1), UNDO),
        ({"status": "WAITING", "fence": 4, **UNDO}, (0, 0), {}),
        (RETRYING, (0, 1), UNDO),
        ({**RETRYING, "direction": "forward"}, (0, 0), {}),
        ({**RETRYING, "gen": 3}, (0, 0), {}),
        (RUNNING, (0, 1), UNDO),
        ({**RUNNING, **UNDO}, (0, 0), {}),
        ({**RUNNING, "direction": "forward"}, (0, 0), {}),
        ({"status": "WAITING", "fence": 4, "direction": "compensating"}, (0, 0), {}),
        ({"fence": 4, "gen": 3}, (0, 0), {}),
        ({"status": "SUCCEEDED", "fence": 4}, (0, 0), {}),
        ({"status": "DEAD", "fence": 4}, (0, 0), {}),
    ],
)
async def test_a_sweep_with_compensation_dispatches_started_chunks(
    store: Store, state: dict[str, Any], counts: Any, change: dict[str, Any]
) -> None:
    await store.put_chunk(**state)
    before = await store.item()
    facts = {"cancelled_at": iso(NOW), "cancel_compensates": True}
    job = await store.put_job(JobStatus.CANCELLING, **facts)
    rt = runtime(store)
    assert counts == await sweep(rt, job)
    after = await store.item()
    assert change.items() <= after.items()
    assert change or before == after
    dispatched = change == UNDO and state.get("status") != "RUNNING"
    assert [m.ref for m in sent(rt)] == [store.chunk] * dispatched
    assert "retry_at" not in after or before == after


async def test_a_chunk_dispatched_for_compensation_is_due_again_later(
    store: Store,
) -> None:
    await store.put_chunk(status="WAITING", fence=4)
    facts = {"cancelled_at": iso(NOW), "cancel_compensates": True}
    await sweep(runtime(store), await store.put_job(JobStatus.CANCELLING, **facts))
    assert (await store.item())["redispatch_at"] == iso(NOW + SETTINGS.visibility_s)


@pytest.mark.parametrize("gives_back", [schedule_retry, defer])
@pytest.mark.parametrize(
    ("compensate", "counts"), [(False, (1, 0)), (True, (0, 1))], ids=["stop", "undo"]
)
async def test_a_chunk_given_back_during_a_sweep_ends_with_it(
    store: Store, gives_back: Write, counts: Any, *, compensate: bool
) -> None:
    claim = await store.running()
    seen = Chunk.read(store.chunk, await store.item())
    assert await gives_back(store, claim)
    request = CancelRequest(iso(NOW), compensate=compensate)
    cancel_sweep = sweeping.CancelSweep(runtime(store), request)
    await cancel_sweep.sweep_all([seen])
    assert counts == (cancel_sweep.cancelled, cancel_sweep.requested)
    after = await store.item()
    assert (after["status"] == "CANCELLED") is not compensate
    assert "retry_at" not in after or not compensate


@pytest.mark.parametrize("deferrals", [schedule_retry, defer])
async def test_a_chunk_that_defers_after_a_cancel_request_does_not_wait_for_its_retry(
    store: Store, deferrals: Write
) -> None:
    claim = await store.running()
    facts = {"cancelled_at": iso(NOW), "cancel_compensates": True}
    job, rt = await store.put_job(JobStatus.CANCELLING, **facts), runtime(store)
    assert (0, 1) == await sweep(rt, job)
    assert await deferrals(store, claim)
    assert [(0, 1), (0, 0)] == [await sweep(rt, job), await sweep(rt, job)]
    assert [Message.about(store.chunk, 2)] == sent(rt)
    met = await store.claims.acquire(store.chunk, gen=2, receive_count=1)
    assert isinstance(met, CancelPending)


async def test_a_chunk_claimed_during_a_sweep_gets_the_compensation_request_at_once(
    store: Store,
) -> None:
    seen = await store.put_chunk(status="WAITING", fence=3)
    await store.put_chunk(**RUNNING)
    cancel_sweep = sweeping.CancelSweep(
        runtime(store), CancelRequest(iso(NOW), compensate=True)
    )
    await cancel_sweep.sweep(seen)
    assert (0, 1) == (cancel_sweep.cancelled, cancel_sweep.requested)
    assert UNDO.items() <= (await store.item()).items()


@pytest.mark.parametrize("undoes", [True, False])
async def test_each_cancel_decides_whether_it_compensates(
    store: Store, *, undoes: bool
) -> None:
    await store.put_job(JobStatus.RUNNING, cancel_compensates=not undoes)
    who = {"actor": "me", "reason": "enough"}
    job = await cancel(runtime(store), store.ref, **who, compensate=undoes)
    assert job.compensates_on_cancel is undoes
    assert job.item["cancel_code"] == "job.cancel.requested"


async def test_a_cancel_in_progress_without_compensation_stays_so(
    store: Store,
) -> None:
    await store.put_job(JobStatus.CANCELLING, cancelled_at=iso(NOW))
    who = {"actor": "me", "reason": "enough"}
    with pytest.raises(UsageError) as refused:
        await cancel(runtime(store), store.ref, **who, compensate=True)
    assert refused.value.code == "job.cancel.without_compensation"
