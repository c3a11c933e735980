"""What the reconciler does for a job, one pass at a time."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.aws.queue import Message
from piecework.domain import keys
from piecework.domain.job import SUBMIT_TIMEOUT_S, Job
from piecework.domain.moments import iso
from piecework.domain.states import JobStatus
from piecework.reconciler import chunks, jobs
from piecework.reconciler.chunks import due, reconcile_chunk, reconcile_chunks
from piecework.reconciler.jobs import (
    finish_cancelling,
    finish_reopening,
    finish_submit,
    reconcile_job,
    send_join,
)
from tests.store.conftest import NOW, SETTINGS, Store
from tests.store.deployment import pass_context, runtime, sent

LEASE = SETTINGS.lease_s
QUIET = iso(NOW - SUBMIT_TIMEOUT_S)
RECENT = iso(NOW - SUBMIT_TIMEOUT_S + 1)
LONG_AGO = iso(NOW - SETTINGS.redispatch_s)
RUNNING = {
    "status": "RUNNING",
    "fence": 4,
    "renewals": 7,
    "attempts": 1,
    "claimed_by": "other",
}
BACK = {**RUNNING, "direction": "compensating"}
GIVEN_BACK = {"status": "WAITING", "fence": 4}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keep the name of each thing that is begun, in place of doing it."""
    names: list[str] = []

    def kept(name: str) -> Any:
        async def keep(*_: Any) -> None:
            names.append(name)

        return keep

    begun = [(jobs, "fan_out"), (chunks, "fan_out"), (chunks, "start_finalizing")]
    for module, name in begun:
        monkeypatch.setattr(module, name, kept(name))

    async def swept(*_: Any) -> tuple[int, int]:
        return 0, 0

    monkeypatch.setattr(jobs, "sweep", swept)
    return names


async def running_job(store: Store, **facts: Any) -> Job:
    facts = {"created_at": LONG_AGO, "opened_at": LONG_AGO, **facts}
    return await store.put_job(JobStatus.RUNNING, **facts)  # type: ignore[no-any-return]


# ── half-way ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("since", "begun"), [(RECENT, []), (QUIET, ["fan_out"])])
async def test_a_submit_that_is_quiet_for_long_is_finished(
    store: Store, asked: list[str], since: str, begun: list[str]
) -> None:
    job = await store.put_job(JobStatus.SUBMITTING, created_at=since)
    acts = await finish_submit(pass_context(store), job)
    assert begun == asked
    assert acts["submit finished"] == len(begun)


@pytest.mark.parametrize(
    ("since", "status"), [(RECENT, JobStatus.REOPENING), (QUIET, JobStatus.RUNNING)]
)
async def test_a_resume_that_is_quiet_for_long_is_finished(
    store: Store, since: str, status: JobStatus
) -> None:
    facts = {"reopened_at": since, "opened_at": LONG_AGO}
    job = await store.put_job(JobStatus.REOPENING, **facts)
    await finish_reopening(runtime(store), job)
    found = await store.jobs.read(store.ref)
    assert found is not None
    assert status is found.status


@pytest.mark.parametrize("seen", ["progress_at", "reopened_at"])
@pytest.mark.parametrize(
    ("act", "status"),
    [
        (finish_submit, JobStatus.SUBMITTING),
        (finish_reopening, JobStatus.REOPENING),
        (reconcile_chunks, JobStatus.RUNNING),
    ],
)
async def test_a_submit_with_progress_is_left_alone(
    store: Store, asked: list[str], act: Any, status: JobStatus, seen: str
) -> None:
    await store.put_chunk()
    began = dict.fromkeys(("created_at", "opened_at", "reopened_at"), LONG_AGO)
    job = await store.put_job(status, **began | {seen: RECENT})
    here = pass_context(store)
    await act(here.rt if act is finish_reopening else here, job)
    found = await store.jobs.read(store.ref)
    assert found is not None
    assert ([], status) == (asked, found.status)


@pytest.mark.parametrize(
    ("facts", "begun"),
    [
        ({"opened_at": QUIET}, ["fan_out"]),
        ({"opened_at": RECENT}, []),
        ({"opened_at": QUIET, "sent_at": QUIET}, []),
        ({"opened_at": QUIET, "reopened_at": QUIET}, []),
    ],
)
async def test_what_an_opened_job_did_not_send_is_sent(
    store: Store, asked: list[str], facts: dict[str, str], begun: list[str]
) -> None:
    await store.put_chunk()
    job = await running_job(store, **facts)
    await reconcile_chunks(pass_context(store), job)
    assert begun == asked


async def test_a_group_at_rest_is_not_read_again_and_its_chunks_count(
    store: Store,
) -> None:
    await store.put_chunk(status="WAITING", due_at=iso(NOW + 9_000))
    other = store.ref.chunk(keys.PARTITION_SIZE)
    facts = {"chunks": keys.PARTITION_SIZE + 1, "has_waits": True, "sent_at": RECENT}
    job, here = await running_job(store, **facts), pass_context(store)
    for status, number in (("PENDING", 2), ("PENDING", 2), ("SUCCEEDED", 1)):
        await store.put(other.pk, other.sk, status=status, gen=2, fence=0, attempts=0)
        await reconcile_job(here, job)
        seen = here.activity[job.ref]
        assert {0: 1} == here.quiet.of(job, NOW)
        assert (number, 1, number == 2) == (seen.open, seen.waiting_long, seen.is_idle)


# ── a cancel ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("state", "seen", "status"),
    [
        (RUNNING, LEASE, "CANCELLED"),
        (RUNNING, LEASE - 1, "RUNNING"),
        ({**RUNNING, "gen": 3}, LEASE, "RUNNING"),
        (BACK, LEASE, "WAITING"),
        (GIVEN_BACK, LEASE, "WAITING"),
        ({**GIVEN_BACK, "cancel_requested_at": iso(NOW)}, LEASE, "CANCELLED"),
        ({"status": "SUCCEEDED"}, LEASE, "SUCCEEDED"),
        ({"status": "DEAD"}, LEASE, "DEAD"),
    ],
)
async def test_a_cancel_takes_what_no_worker_holds_any_more_and_nothing_else(
    store: Store, asked: list[str], state: dict[str, Any], seen: float, status: str
) -> None:
    await store.put_chunk(**state)
    job = await store.put_job(JobStatus.CANCELLING, created_at=LONG_AGO)
    await finish_cancelling(pass_context(store, seen), job)
    item = await store.item()
    assert status == item["status"]


@pytest.mark.parametrize(
    ("since", "sweeps", "status"),
    [
        (QUIET, False, "CANCELLED"),
        (RECENT, False, "PENDING"),
        (RECENT, True, "CANCELLED"),
    ],
)
async def test_a_sweep_that_another_process_is_seen_to_make_is_left_to_it(
    store: Store, since: str, status: str, *, sweeps: bool
) -> None:
    await store.put_chunk()
    # Another chunk has a live owner, so that the job does not end.
    other = store.ref.chunk(4)
    await store.put(other.pk, other.sk, **{**RUNNING, "chunk": 4, "gen": 2})
    facts = {"created_at": LONG_AGO, "cancelled_at": since}
    job = await store.put_job(JobStatus.CANCELLING, **facts)
    await finish_cancelling(pass_context(store), job, sweeps=sweeps)
    assert (await store.item())["status"] == status


# ── the join ────────────────────────────────────────────────────────────────


async def test_a_join_that_is_not_there_is_not_sent(store: Store) -> None:
    job = await store.put_job(JobStatus.FINALIZING, created_at=LONG_AGO)
    here = pass_context(store)
    assert (await send_join(here, job)).total() == 0
    assert sent(here.rt) == []


async def test_a_join_that_waits_is_sent(store: Store) -> None:
    ref = store.ref.chunk(keys.JOIN_CHUNK)
    await store.put(ref.pk, ref.sk, status="PENDING", gen=2, chunk=-1, fence=0)
    job = await store.put_job(JobStatus.FINALIZING, created_at=LONG_AGO)
    here = pass_context(store)
    await send_join(here, job)
    await here.send()
    assert sent(here.rt) == [Message.about(ref, 2)]


@pytest.mark.parametrize(("since", "again"), [(QUIET, 1), (RECENT, 0)])
async def test_a_join_without_a_claim_is_soon_sent_again(
    store: Store, since: str, again: int
) -> None:
    ref = store.ref.chunk(keys.JOIN_CHUNK)
    await store.put(ref.pk, ref.sk, status="PENDING", gen=1, chunk=-1, fence=0)
    began = dict.fromkeys(("created_at", "opened_at", "sent_at"), QUIET)
    job = await store.put_job(JobStatus.FINALIZING, 1, **began, finalizing_at=since)
    here = pass_context(store)
    assert again == (await send_join(here, job))["redispatched"]
    await here.send()
    assert [Message.about(ref, 1)] * again == sent(here.rt)


@pytest.mark.parametrize(
    ("status", "begun"), [("SUCCEEDED", ["start_finalizing"]), ("PENDING", [])]
)
async def test_a_job_is_finished_when_all_have_ended(
    store: Store, asked: list[str], status: str, begun: list[str]
) -> None:
    await store.put_chunk(status=status, redispatch_at=iso(NOW + 1))
    job = await running_job(store, sent_at=LONG_AGO)
    here = pass_context(store)
    assert (await reconcile_chunks(here, job)).total() == 0
    assert begun == asked
    assert sent(here.rt) == []


async def test_the_join_of_a_job_whose_chunks_have_ended_is_dispatched(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = store.ref.chunk(keys.JOIN_CHUNK)

    async def begin(*_: Any) -> Any:
        return join, 2

    monkeypatch.setattr(chunks, "start_finalizing", begin)
    await store.put_chunk(status="SUCCEEDED")
    job = await running_job(store, sent_at=LONG_AGO)
    here = pass_context(store)
    assert (await reconcile_chunks(here, job))["join started"] == 1
    await here.send()
    assert sent(here.rt) == [Message.about(join, 2)]


# ── a chunk ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("state", "seen", "again"),
    [
        (RUNNING, LEASE, 1),
        (RUNNING, LEASE - 1, 0),
        ({}, 0.0, 1),
        ({"status": "WAITING", "redispatch_at": iso(NOW)}, 0.0, 1),
        ({"status": "WAITING", "redispatch_at": iso(NOW + 1)}, LEASE, 0),
        ({"status": "SUCCEEDED"}, LEASE, 0),
        ({"status": "DEAD", "redispatch_at": iso(NOW)}, LEASE, 0),
    ],
)
async def test_a_chunk_that_no_message_speaks_for_is_sent(
    store: Store, state: dict[str, Any], seen: float, again: int
) -> None:
    chunk = await store.put_chunk(**state)
    job = await running_job(store)
    here = pass_context(store, seen)
    before = await store.item()
    acts = await reconcile_chunk(here, job, chunk)
    await here.send()
    assert again == acts.total() == len(sent(here.rt))
    assert (before == await store.item()) is (again == 0)


@pytest.mark.parametrize(
    ("state", "act"), [(RUNNING, "expired lease released"), ({}, "redispatched")]
)
async def test_what_was_done_is_named(
    store: Store, state: dict[str, Any], act: str
) -> None:
    chunk = await store.put_chunk(**state)
    job = await running_job(store)
    assert await reconcile_chunk(pass_context(store, LEASE), job, chunk) == {act: 1}


@pytest.mark.parametrize("state", [RUNNING, {}])
async def test_a_chunk_that_changed_since_it_was_read_is_not_sent(
    store: Store, state: dict[str, Any]
) -> None:
    chunk = await store.put_chunk(**state)
    await store.change(fence=9)
    job = await running_job(store)
    here = pass_context(store, LEASE)
    assert (await reconcile_chunk(here, job, chunk)).total() == 0
    await here.send()
    assert sent(here.rt) == []


SOON, LATER = iso(NOW), iso(NOW + 1)
SENT_LATE = iso(NOW - SETTINGS.redispatch_s + 1)


@pytest.mark.parametrize(
    ("chunk_facts", "job_facts", "expected"),
    [
        ({"redispatch_at": SOON}, {"sent_at": SOON}, True),
        ({"redispatch_at": LATER}, {"sent_at": LONG_AGO, "reopened_at": QUIET}, False),
        ({}, {"reopened_at": QUIET, "sent_at": LONG_AGO}, True),
        ({}, {"reopened_at": RECENT, "sent_at": LONG_AGO}, False),
        ({}, {"reopened_at": QUIET, "progress_at": RECENT}, False),
        ({}, {"reopened_at": QUIET, "sent_at": SOON}, False),
        ({}, {"sent_at": LONG_AGO}, True),
        ({}, {"sent_at": SENT_LATE}, False),
        ({}, {"progress_at": SOON}, False),
        ({}, {}, True),
    ],
)
async def test_a_chunk_is_due_by_its_own_word_then_by_its_jobs(
    store: Store, chunk_facts: Any, job_facts: Any, expected: Any
) -> None:
    chunk = await store.put_chunk(**chunk_facts)
    job = await running_job(store, **job_facts)
    assert expected is due(chunk, job, pass_context(store))
