"""A child is started with the wait for it, and its end wakes the chunk that waits."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.child import ChildStart
from piecework.domain.chunk import Chunk
from piecework.domain.moments import iso
from piecework.domain.outcome import CHILD_JOB, Mapped
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.jobs.children import follow_parent, must_cancel, tell_parent
from piecework.store.children import children_of, wake
from piecework.store.settlements import Calls
from piecework.store.table import Written
from tests.store.conftest import NOW, Store
from tests.store.deployment import runtime, sent
from tests.store.table import Case

FACTS = {"pipeline": "below", "chunks": 2, "parent_job": "job", "parent_chunk": 3}
START = ChildStart("child", "below", "first", 2, FACTS)
AGAIN = ChildStart("child", "below", "first", 2)
WAITS = {"status": "WAITING", "fence": 4, "blocked_on": CHILD_JOB, "child": "child"}


def child_ref(store: Store) -> JobRef:
    return JobRef(store.ref.tenant, "child")


async def child_row(store: Store) -> dict[str, Any]:
    return await store.item(child_ref(store).pk, keys.META_SK)


async def put_child(store: Store, status: JobStatus, **facts: Any) -> Any:
    item = {"status": status, "gen": 1, "created_at": iso(NOW), **FACTS, **facts}
    item["parent_job"] = store.ref.job
    await store.put(child_ref(store).pk, keys.META_SK, **item)
    return await store.jobs.read(child_ref(store))


async def waiting(store: Store) -> Chunk:
    return await store.put_chunk(**WAITS, retry_at=iso(NOW + 900), due_at=iso(NOW + 9))


async def wake_chunk(store: Store, chunk: Chunk) -> bool:
    at = iso(NOW - 1)
    return await wake(store.table, chunk.ref, chunk.gen, "child", at, NOW)


CASES = (
    Case(
        name="wake",
        before=waiting,
        act=wake_chunk,
        left={
            "status": "WAITING",
            "due_at": iso(NOW),
            "redispatch_at": iso(NOW),
            "retry_at": None,
            "blocked_on": None,
            "child": None,
        },
        moved=(
            {"status": "RUNNING"},
            {"status": "CANCELLED"},
            {"child": "another"},
            {"child": None},
            {"cancel_requested_at": iso(NOW)},
        ),
    ),
)


async def test_a_claim_ends_with_its_child_in_one_write(store: Store) -> None:
    claim = await store.running()
    await store.put_job(JobStatus.RUNNING)
    assert await store.settlements.map(claim, Mapped(START), calls=Calls(1))
    chunk = await store.item()
    assert {name: chunk.get(name) for name in ("status", "child", "attempts")} == {
        "status": "WAITING",
        "child": "child",
        "attempts": 1,
    }
    assert (await child_row(store))["status"] == JobStatus.SUBMITTING
    [row] = [row async for row in children_of(store.table, store.ref)]
    assert (row.job, row.chunk, row.rows) == ("child", 3, 2)
    assert child_ref(store) in [ref async for ref in store.jobs.active()]


async def test_a_lost_claim_starts_no_child(store: Store) -> None:
    claim = await store.running()
    await store.change(fence=5)
    assert not await store.settlements.map(claim, Mapped(START), calls=Calls(1))
    assert await child_row(store) == {}


@pytest.mark.parametrize("status", [s for s in JobStatus if s.ended or s.gone], ids=str)
async def test_a_chunk_never_waits_for_a_child_that_has_ended(
    store: Store, status: JobStatus
) -> None:
    """It was read before: nothing is written, and the stage looks again."""
    claim = await store.running()
    await put_child(store, status)
    with store.unchanged():
        found = await store.settlements.map(claim, Mapped(AGAIN), calls=Calls(1))
    assert found is None


@pytest.mark.parametrize("status", [s for s in JobStatus if s.is_open], ids=str)
async def test_a_chunk_waits_for_a_child_that_goes_on(
    store: Store, status: JobStatus
) -> None:
    claim = await store.running()
    await put_child(store, status)
    before = await child_row(store)
    assert await store.settlements.map(claim, Mapped(AGAIN), calls=Calls(1))
    chunk = await store.item()
    assert (chunk["child"], chunk["retry_at"] > iso(NOW + 3600)) == ("child", True)
    assert await child_row(store) == before


async def test_the_end_of_a_child_leaves_an_entry_that_wakes_its_parent_once(
    store: Store,
) -> None:
    await store.put_job(JobStatus.RUNNING)
    await waiting(store)
    job = await put_child(store, JobStatus.FINALIZING)
    writes = await store.transitions.ending(
        job, JobStatus.SUCCEEDED, {"certificate": "c", "outcomes": {}}
    )
    assert isinstance(await store.table.transact(writes), Written)
    sk = keys.wait_sk(iso(NOW), 3)
    assert (await store.item(store.ref.pk, sk))["child"] == "child"
    rt = runtime(store)
    for _ in range(2):
        await tell_parent(rt, job.ref)
    assert "child" not in await store.item()
    assert "child" not in await store.item(store.ref.pk, sk)
    assert [(m.chunk, m.gen) for m in sent(rt)] == [(3, 2)]


def at(seconds: float) -> str:
    return iso(NOW + seconds)


@pytest.mark.parametrize(
    ("parent", "reopened", "is_cancelled"),
    [
        ({"status": JobStatus.CANCELLING, "cancelled_at": at(0)}, "", True),
        ({"status": JobStatus.CANCELLED, "cancelled_at": at(0)}, "", True),
        ({"status": JobStatus.CANCELLED, "cancelled_at": at(0)}, at(-1), True),
        ({"status": JobStatus.CANCELLED, "cancelled_at": at(0)}, at(1), False),
        ({"status": JobStatus.RUNNING, "cancelled_at": at(0)}, "", False),
        ({"status": JobStatus.FAILED}, "", False),
        ({"status": JobStatus.DELETED}, "", True),
    ],
)
async def test_a_child_follows_the_cancel_of_its_parent(
    store: Store, parent: dict[str, Any], reopened: str, *, is_cancelled: bool
) -> None:
    above = await store.put_job(**parent)
    more = {"reopened_at": reopened} if reopened else {}
    job = await put_child(store, JobStatus.RUNNING, opened_at=iso(NOW), **more)
    assert must_cancel(job, above) is is_cancelled


@pytest.mark.parametrize(
    ("parent", "child", "after"),
    [
        (JobStatus.PAUSED, {"status": JobStatus.RUNNING}, "PAUSED"),
        (JobStatus.RUNNING, {"status": JobStatus.RUNNING}, "RUNNING"),
        (JobStatus.RUNNING, {"status": "PAUSED", "pause_code": "parent"}, "RUNNING"),
        (JobStatus.RUNNING, {"status": "PAUSED", "pause_code": "operator"}, "PAUSED"),
        (JobStatus.PAUSED, {"status": "PAUSED", "pause_code": "parent"}, "PAUSED"),
        (JobStatus.PAUSED, {"status": JobStatus.SUBMITTING}, "SUBMITTING"),
    ],
)
async def test_a_child_follows_the_pause_of_its_parent(
    store: Store, parent: JobStatus, child: dict[str, Any], after: str
) -> None:
    await store.put_job(parent)
    pause = {"pause_message": "why", "paused_by": "me", "paused_at": iso(NOW - 9)}
    pause = pause if "pause_code" in child else {}
    job = await put_child(store, **child | pause, opened_at=iso(NOW))
    below = job.ref.chunk(0)
    item = {"v": 1, "status": "PENDING", "gen": 1, "fence": 0, "attempts": 0}
    await store.put(below.pk, below.sk, **item, stage="first", chunk=0)
    await follow_parent(runtime(store), job)
    assert (await child_row(store))["status"] == after
