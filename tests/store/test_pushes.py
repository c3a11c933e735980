"""A run of another machine becomes a job in one write, under a free name alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from piecework.domain import keys
from piecework.domain.states import JobStatus
from piecework.store.pushes import Pushes, has_arrived
from tests.store.conftest import Store
from tests.store.table import Case, of_job

S = JobStatus
TOKEN = "mine"
META: Mapping[str, Any] = {
    "job": "job-1",
    "status": S.RUNNING,
    "gen": 2,
    "created_at": "2026-11-29T10:00:00.000Z",
    "pipeline": "review",
    "chunks": 1,
    "manifest_sha256": "abc",
    "sent_at": "2026-11-29T10:00:01.000Z",
}


def pushes(store: Store) -> Pushes:
    return Pushes(store.table, store.dead_letter_table, store.clock)


async def reserve(store: Store, token: str = TOKEN) -> bool:
    return await pushes(store).reserve(store.ref, META, token)


async def open_job(store: Store) -> bool:
    return await pushes(store).open(store.ref, META, TOKEN, [], {"source": "rows"})


async def reserved(store: Store) -> None:
    await reserve(store)


async def act(store: Store, _: None) -> bool:
    return await open_job(store)


CASES = [
    Case(
        name="open a pushed job",
        before=reserved,
        act=act,
        key=of_job,
        left={"status": S.RUNNING, "sent_at": None, "manifest_sha256": "abc"},
        moved=[
            {"push_token": "another"},
            *({"status": each} for each in S if each is not S.SUBMITTING),
        ],
        requests=0,
    )
]


async def test_a_reserved_name_is_in_no_list_until_the_job_is_open(
    store: Store,
) -> None:
    assert await reserve(store)
    assert await reserve(store)  # the same push, typed again
    assert not await reserve(store, "another push")
    job = await store.jobs.read(store.ref)
    assert job is not None
    assert not has_arrived(job, TOKEN)
    assert [] == [ref async for ref in store.jobs.active()]

    assert await open_job(store)
    assert not await open_job(store)
    job = await store.jobs.read(store.ref)
    assert job is not None
    assert has_arrived(job, TOKEN)
    assert [store.ref] == [ref async for ref in store.jobs.active()]
    assert ["pushed"] == [each.event for each in await store.jobs.events(store.ref)]


async def test_a_submit_does_not_take_a_reserved_name_for_its_own(store: Store) -> None:
    await reserve(store)
    with store.unchanged():
        there = await store.jobs.create(store.ref, dict(META))
    assert there is not None
    assert (there.status, there.manifest_sha256) == (S.SUBMITTING, "")


async def test_rows_that_exist_stay(store: Store) -> None:
    row = {"pk": store.ref.pk, "sk": "CHUNK#00000000", "status": "PENDING"}
    await pushes(store).copy([row])
    await pushes(store).copy([row | {"status": "DEAD"}])
    letter = {"pk": keys.open_letters_pk(store.ref.tenant), "sk": "x", "n": 1}
    await pushes(store).copy_letters([letter])
    await pushes(store).copy_letters([letter | {"n": 2}])
    found = await store.table.get(row["pk"], row["sk"])
    assert found is not None
    assert "PENDING" == found["status"]
    kept = await store.dead_letter_table.get(letter["pk"], letter["sk"])
    assert kept is not None
    assert 1 == kept["n"]
