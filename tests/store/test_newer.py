"""What is of a newer version is left as it is: by claims, looks and lists."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.aws.queue import Delivery, Message
from piecework.domain import keys
from piecework.domain.protocols import CancelRequest
from piecework.domain.refs import ChunkRef
from piecework.domain.states import JobStatus
from piecework.errors import SchemaTooNewError
from piecework.jobs.cancellation import CancelSweep, sweep
from piecework.reconciler.chunks import reconcile_chunks
from piecework.reconciler.dead_letter_queue import handle
from piecework.store import claims, table
from piecework.store.breakers import Breakers
from piecework.store.completion import all_chunks, take_snapshot
from tests.store.conftest import NOW, SETTINGS, Store
from tests.store.deployment import GPU, LOG, bodies, pass_context, runtime, sent


@pytest.mark.parametrize("attempts", [0, 3])
async def test_a_claim_writes_the_schema_version_of_its_worker(
    store: Store, monkeypatch: pytest.MonkeyPatch, attempts: int
) -> None:
    await store.put_chunk(attempts=attempts, later="news")
    monkeypatch.setattr(claims, "SCHEMA", 2)
    take = store.claims.acquire_for_recovery if attempts else store.claims.acquire
    await take(store.chunk, gen=2, receive_count=1, last=0)

    row = await store.item()
    assert (row["v"], row["status"], row["later"]) == (2, "RUNNING", "news")


async def test_every_item_that_is_put_says_its_version(store: Store) -> None:
    facts = {"pipeline": "p", "chunks": 1}
    _, job = await store.does(store.jobs.create(store.ref, facts))
    chunk = [(0, {"stage": "first"})]
    _, chunks = await store.does(store.jobs.add_chunks(store.ref, 1, chunk))
    _, event = await store.does(store.jobs.record(store.ref, "redriven", {}))
    put = [*job.values(), *chunks.values(), *event.values()]
    assert [row["v"] for row in put if "v" in row or "pk" in row] == [1] * 5


async def test_a_breaker_says_its_version(store: Store) -> None:
    breakers = Breakers(store.table, "worker", store.clock)
    name = store.ref.job
    await breakers.open(name, 0, NOW + 5, "code")

    assert (await store.item(keys.BREAKERS_PK, name))["v"] == 1


async def test_a_newer_breaker_is_each_process_s_own_affair(store: Store) -> None:
    name = f"newer-{store.ref.job}"
    await store.put(keys.BREAKERS_PK, name, v=2, gen=7, breaker_state="ajar")
    breakers = Breakers(store.table, "worker", store.clock)
    try:
        with pytest.raises(SchemaTooNewError):
            await breakers.read_all()
        with pytest.raises(SchemaTooNewError):
            await breakers.open(name, 3, NOW + 5, "code")
    finally:
        await store.put(keys.BREAKERS_PK, name, gen=7, breaker_state="closed")


async def test_a_newer_job_or_chunk_is_not_read_but_refused(store: Store) -> None:
    await store.put(store.ref.pk, keys.META_SK, v=2, status="PAUSED", gen=1)
    await store.put_chunk(v=2)

    with pytest.raises(SchemaTooNewError) as refused:
        await store.jobs.read(store.ref)
    with pytest.raises(SchemaTooNewError):
        await take_snapshot(store.table, store.ref, 4)
    assert (refused.value.code, refused.value.exit_code) == (
        "runtime.record.schema_too_new",
        2,
    )
    assert "Install that version" in refused.value.next_step


async def test_a_newer_job_is_listed_all_the_same(store: Store) -> None:
    active = keys.active_sk(store.ref.tenant, store.ref.job)
    await store.put(keys.ACTIVE_PK, active, v=2)
    await store.put(keys.jobs_pk(store.ref.tenant), f"2026#{store.ref.job}", v=2)

    assert store.ref in [ref async for ref in store.jobs.active()]
    assert store.ref in [ref async for ref in store.jobs.listed(store.ref.tenant)]


# ── the reconciler, and a cancel, beside newer ones ─────────────────────────


async def mixed(store: Store, status: str, **job: Any) -> Any:
    """Lay down a job with a chunk of ours, and one that a newer worker has begun."""
    await store.put(
        store.ref.pk,
        keys.META_SK,
        v=1,
        status=status,
        gen=2,
        chunks=4,
        pipeline="p",
        **{"sent_at": "2020-01-01T00:00:00.000Z", **job},
    )
    await store.put_chunk(status="SUCCEEDED")
    other = store.ref.chunk(2)
    item = {"v": 2, "status": "PONDERING", "gen": 2, "fence": 1, "stage": "first"}
    await store.put(other.pk, other.sk, chunk=2, **item)
    return await store.jobs.read(store.ref)


async def test_chunks_of_a_newer_version_are_listed_apart(store: Store) -> None:
    job = await mixed(store, "RUNNING")
    newer: list[ChunkRef] = []
    ours = [c.ref async for c in all_chunks(store.table, job.ref, 4, newer)]

    assert (ours, newer) == ([store.ref.chunk(3)], [store.ref.chunk(2)])


async def test_a_job_is_not_ended_while_a_newer_worker_is_at_it(store: Store) -> None:
    job = await mixed(store, "RUNNING")
    acts = await reconcile_chunks(pass_context(store), job)

    after = await store.jobs.read(store.ref)
    assert acts.total() == 0
    assert after is not None
    assert after.status is JobStatus.RUNNING


async def test_a_cancel_leaves_a_newer_chunk_and_the_end_to_newer_ones(
    store: Store,
) -> None:
    times = dict.fromkeys(("cancelled_at", "opened_at"), "2026-01-01T00:00:00.000Z")
    job = await mixed(store, "CANCELLING", **times)
    await store.change(status="PENDING")
    cancelled, asked = await sweep(runtime(store), job)

    after = await store.jobs.read(store.ref)
    assert (cancelled, asked) == (1, 0)
    assert after is not None
    assert after.status is JobStatus.CANCELLING


async def test_a_cancel_skips_a_chunk_that_a_newer_worker_claimed_meanwhile(
    store: Store,
) -> None:
    seen = await store.put_chunk()
    await store.put(store.chunk.pk, store.chunk.sk, v=2, status="PONDERING", gen=2)
    cancel_sweep = CancelSweep(
        runtime(store), CancelRequest("2026-01-01T00:00:00.000Z", compensate=False)
    )
    await cancel_sweep.sweep(seen)

    assert (cancel_sweep.cancelled, cancel_sweep.requested) == (0, 0)


# ── messages that SQS has set aside ─────────────────────────────────────────


def newer_message(store: Store) -> Delivery:
    return Delivery(
        message=None,
        body='{"v": 2}',
        receipt="r",
        message_id=store.ref.job,
        received=11,
        newer=True,
        address=store.chunk,
    )


async def test_a_newer_message_of_a_readable_chunk_is_sent_in_this_version(
    store: Store,
) -> None:
    await store.put_chunk()
    rt = runtime(store)

    assert (
        await handle(rt, newer_message(store), LOG) == "dead-letter queue: redispatched"
    )
    assert sent(rt) == [Message.about(store.chunk, 2)]


async def test_a_newer_message_of_an_ended_chunk_goes(store: Store) -> None:
    await store.put_chunk(status="SUCCEEDED")
    rt = runtime(store)
    done = await handle(rt, newer_message(store), LOG)

    assert done == "dead-letter queue: chunk had ended"
    assert sent(rt) == []


@pytest.mark.parametrize("ours", [False, True])
async def test_the_message_of_a_newer_chunk_goes_back_as_it_came(
    store: Store, *, ours: bool
) -> None:
    await store.put(store.chunk.pk, store.chunk.sk, v=2, status="PONDERING")
    delivery = newer_message(store)
    if ours:
        delivery = Delivery(Message.about(store.chunk, 2), "ours", "r", "m", 11)
    await store.put(store.ref.pk, keys.META_SK, v=2, queue=GPU)
    rt = runtime(store)
    with store.unchanged():  # nothing is set aside
        done = await handle(rt, delivery, LOG)

    assert done == "dead-letter queue: left to newer workers"
    assert bodies(rt, SETTINGS.queue_name(GPU)) == [delivery.body]
    assert sent(rt) == []


async def test_the_message_of_a_newer_job_whose_chunks_lie_elsewhere_goes_back(
    store: Store,
) -> None:
    await store.put(store.ref.pk, keys.META_SK, v=2)
    rt: Any = runtime(store)
    done = await handle(rt, newer_message(store), LOG)

    assert done == "dead-letter queue: left to newer workers"


async def test_a_newer_message_of_nothing_is_set_aside(store: Store) -> None:
    rt = runtime(store)
    done = await handle(rt, newer_message(store), LOG)
    row = await store.dead_letter_table.get("QUARANTINE", store.ref.job) or {}

    assert done == "dead-letter queue: quarantined"
    assert row["error_code"] == "runtime.message.orphan"


async def test_rows_that_are_only_shown_are_read_at_any_version(store: Store) -> None:
    await store.put(store.ref.pk, "EVENT#2026#paused", v=2, event="paused")

    assert [e.event for e in await store.jobs.events(store.ref)] == ["paused"]
    assert table.SCHEMA == 1
