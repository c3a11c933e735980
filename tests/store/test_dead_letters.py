"""A dead letter is closed once, by one, and together with its mark and its chunk."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.moments import iso
from piecework.domain.states import JobStatus
from piecework.store.dead_letters import Closing, newest, oldest, open_mark
from piecework.store.reopen import Patched, Reopening, Schedule, reopen_chunk
from piecework.store.table import Written
from tests.store.conftest import NOW, Store
from tests.store.writes import dead_letter

BY = Closing("me", "fixed")
PATCHED = Patched("pack/0+2", "ab", '{"n": 1}')


def row(store: Store, state: str = "OPEN", chunk: int = 3) -> dict[str, Any]:
    return {
        "kind": "dead-letter",
        "state": state,
        "tenant": store.ref.tenant,
        "job": store.ref.job,
        "chunk": chunk,
        "gen": 2,
        "dead_lettered_at": iso(store.now),
    }


async def put_dead_letter(
    store: Store, state: str = "OPEN", chunk: int = 3
) -> DeadLetterRow:
    dead_letter, table = row(store, state, chunk), store.dead_letter_table.name
    sk = keys.dead_letter_sk(chunk, 2)
    await store.put(store.ref.pk, sk, table, **dead_letter)
    if state == "OPEN":
        await store.dead_letter_table.put(
            open_mark(store.dead_letter_table, dead_letter)
        )
    return as_row(store, dead_letter)


def as_row(store: Store, dead_letter: dict[str, Any]) -> DeadLetterRow:
    return DeadLetterRow(
        dead_letter, store.ref.chunk(dead_letter["chunk"]), dead_letter["gen"]
    )


async def dead_letter_of(store: Store, chunk: int = 3) -> dict[str, Any]:
    sk = keys.dead_letter_sk(chunk, 2)
    return await store.dead_letter_table.get(store.ref.pk, sk) or {}


async def marks(store: Store) -> list[int]:
    found = await newest(store.dead_letter_table, store.ref.tenant, 9)
    return [mark.chunk for mark in found]


async def reopen(
    store: Store, dead_letter: Any, patched: Patched | None = None
) -> bool:
    seen = Chunk.read(store.chunk, await store.item())
    also = store.dead_letters.redrive_writes(dead_letter, 5, BY, patched)
    how = Reopening(patched, None, also)
    return await reopen_chunk(store.table, seen, 5, how)


async def dead(store: Store, **facts: Any) -> None:
    await store.put_job(JobStatus.REOPENING, gen=5)
    await store.put_chunk(status="DEAD", fence=4, **facts)


# ── a death ──────────────────────────────────────────────────────────────────


async def test_a_dead_chunk_has_one_open_dead_letter_with_index_row_and_fingerprint(
    store: Store,
) -> None:
    assert await dead_letter(store, await store.running()) is True
    row = await dead_letter_of(store)
    assert ("OPEN", 12) == (row["state"], len(row["fingerprint"]))
    mark = await oldest(store.dead_letter_table, store.ref.tenant)
    assert mark is not None
    assert (3, 2, row["dead_lettered_at"]) == (
        mark.chunk,
        mark.item["gen"],
        mark.dead_lettered_at,
    )
    assert "expires_at" not in row.keys() | mark.item.keys()


async def test_a_dead_letter_names_the_one_that_it_is_a_replay_of(store: Store) -> None:
    facts = {"replay_of": 1, "origin_gen": 1, "patched_in_gen": 2}
    await dead_letter(store, await store.running(**facts))
    row = await dead_letter_of(store)
    assert facts == {name: row[name] for name in facts}


async def test_marks_are_listed_by_the_time_of_the_death(store: Store) -> None:
    for chunk in (3, 1, 2):
        await put_dead_letter(store, chunk=chunk)
        store.now += 60
    assert [2, 1] == [
        m.chunk for m in await newest(store.dead_letter_table, store.ref.tenant, 2)
    ]
    first = await oldest(store.dead_letter_table, store.ref.tenant)
    assert first is not None
    assert 3 == first.chunk
    assert await oldest(store.dead_letter_table, "nobody") is None


# ── a redrive ────────────────────────────────────────────────────────────────


async def test_a_dead_letter_is_redriven_with_its_chunk(store: Store) -> None:
    await dead(store)
    assert await reopen(store, await put_dead_letter(store)) is True
    dead_letter, item = await dead_letter_of(store), await store.item()
    assert ("REDRIVEN", 5, "me", "fixed") == (
        dead_letter["state"],
        dead_letter["redriven_gen"],
        dead_letter["redriven_by"],
        dead_letter["redrive_reason"],
    )
    assert ("PENDING", 2, 2) == (item["status"], item["replay_of"], item["origin_gen"])
    assert "patch" not in dead_letter
    assert "patched_in_gen" not in item
    assert [] == await marks(store)


async def test_the_first_origin_stays_through_all_replays(store: Store) -> None:
    await dead(store, replay_of=1, origin_gen=1)
    await reopen(store, await put_dead_letter(store))
    item = await store.item()
    assert (2, 1) == (item["replay_of"], item["origin_gen"])


@pytest.mark.parametrize("state", ["REDRIVEN", "DISCARDED"])
async def test_a_chunk_with_a_closed_dead_letter_is_not_reopened(
    store: Store, state: str
) -> None:
    await dead(store)
    dead_letter = await put_dead_letter(store, state)
    assert (False, {}) == await store.does(reopen(store, dead_letter))


async def test_a_dead_letter_of_a_chunk_that_changed_stays_open(store: Store) -> None:
    await dead(store)
    dead_letter = await put_dead_letter(store)
    seen = Chunk.read(store.chunk, await store.item())
    await store.change(gen=3)
    how = Reopening(also=store.dead_letters.redrive_writes(dead_letter, 5, BY))
    assert await reopen_chunk(store.table, seen, 5, how) is False
    assert "OPEN" == (await dead_letter_of(store))["state"]
    assert [3] == await marks(store)


async def test_a_patched_chunk_and_its_dead_letter_name_the_new_payload(
    store: Store,
) -> None:
    await dead(store, payload="old/0+2", payload_sha256="cd")
    await reopen(store, await put_dead_letter(store), PATCHED)
    item, dead_letter = await store.item(), await dead_letter_of(store)
    assert ("pack/0+2", "ab", 5) == (
        item["payload"],
        item["payload_sha256"],
        item["patched_in_gen"],
    )
    assert ('{"n": 1}', "pack/0+2", "ab") == (
        dead_letter["patch"],
        dead_letter["patched_payload"],
        dead_letter["patched_payload_sha256"],
    )


async def test_a_chunk_that_has_its_turn_later_waits_for_it(store: Store) -> None:
    await dead(store, retry_at=iso(NOW - 9), redispatch_at=iso(NOW - 9))
    seen = Chunk.read(store.chunk, await store.item())
    how = Reopening(schedule=Schedule(NOW + 10, NOW + 40))
    assert await reopen_chunk(store.table, seen, 5, how) is True
    item = await store.item()
    assert (iso(NOW + 10), iso(NOW + 40)) == (item["retry_at"], item["redispatch_at"])
    assert (
        "NotDue"
        == type(
            await store.claims.acquire(store.chunk, gen=5, receive_count=1)
        ).__name__
    )


async def test_a_cancelled_chunk_is_the_replay_of_no_death(store: Store) -> None:
    await store.put_job(JobStatus.REOPENING, gen=5)
    seen = await store.put_chunk(status="CANCELLED", fence=4)
    assert await reopen_chunk(store.table, seen, 5) is True
    assert not {"replay_of", "origin_gen"} & (await store.item()).keys()


async def test_the_dead_letter_of_a_join_is_closed_with_the_reopen_of_its_job(
    store: Store,
) -> None:
    job = await store.put_job(JobStatus.FAILED)
    dead_letter = await put_dead_letter(store, chunk=keys.JOIN_CHUNK)
    also = store.dead_letters.redrive_writes(dead_letter, 3, BY)
    assert await store.transitions.reopen(job, {}, also) == 3
    assert "REDRIVEN" == (await dead_letter_of(store, keys.JOIN_CHUNK))["state"]


# ── a discard ────────────────────────────────────────────────────────────────


async def test_an_open_dead_letter_is_discarded_once_with_operator_and_reason(
    store: Store,
) -> None:
    dead_letter = await put_dead_letter(store)
    assert await store.dead_letters.discard(dead_letter, BY) is True
    found = await dead_letter_of(store)
    assert ("DISCARDED", "me", "fixed", iso(NOW)) == (
        found["state"],
        found["discarded_by"],
        found["discard_reason"],
        found["discarded_at"],
    )
    assert [] == await marks(store)
    store.now += 10
    assert await store.dead_letters.discard(dead_letter, BY) is False
    assert found == await dead_letter_of(store)


async def test_a_redriven_dead_letter_is_not_discarded(store: Store) -> None:
    dead_letter = await put_dead_letter(store, "REDRIVEN")
    assert (False, {}) == await store.does(store.dead_letters.discard(dead_letter, BY))


async def test_a_missing_dead_letter_is_not_created(store: Store) -> None:
    assert await store.dead_letters.discard(as_row(store, row(store)), BY) is False
    actions = store.dead_letters.redrive_writes(as_row(store, row(store)), 3, BY)
    assert not isinstance(await store.dead_letter_table.transact(actions), Written)
    assert {} == await dead_letter_of(store)
