"""Guarantee: what a batch answers is booked once, by whichever collectors read it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.batch import (
    CollectorRow,
    Member,
    PlannedRow,
    Request,
    RequestState,
    pack_members,
)
from piecework.domain.call_usage import CallUsage
from piecework.domain.chunk import Chunk
from piecework.domain.moments import iso
from piecework.domain.outcome import BATCH, Batching
from piecework.domain.refs import ChunkRef
from piecework.domain.states import ChunkStatus
from piecework.store.batches import Batches
from piecework.store.settlements import Calls
from tests.store.conftest import NOW, Store

KEY = "model"
PLACE = ("tenant", KEY)
NAMES = ("a" * 63, "b" * 63)


def batches(store: Store) -> Batches:
    return Batches(store.table, store.objects, store.clock)


def paid(usd: int = 7) -> CallUsage:
    found = CallUsage()
    found.add("paid", "mini batch", [1, 100, 10, usd])
    return found


async def waiting(store: Store) -> Member:
    """Let a claim end with a request; return it as the member of a batch."""
    claim = await store.running()
    request = Request(
        KEY, "mini", NOW, NOW + 3600, NOW + 5400, 1, dict.fromkeys(NAMES, b"{}"), 4
    )
    batching = Batching(NOW + 5400, [request])
    assert await store.settlements.batch(claim, batching, calls=Calls(0))
    (asked,) = await batches(store).first_asked(PLACE, 9)
    return asked.member


async def chunk_of(store: Store) -> Chunk:
    return Chunk.read(store.chunk, await store.item())


async def close(store: Store, member: Member, **facts: Any) -> Any:
    state = facts.pop("state", RequestState.OVER)
    ref = ChunkRef(store.ref.tenant, member.job, member.chunk)
    usage = facts.pop("usage", paid())
    chunk = (await batches(store).chunks([ref])).get(ref)
    if chunk is None:
        return None
    return await batches(store).close(chunk, member, state, usage, facts)


async def test_a_claim_that_ends_with_a_request_waits_and_refunds_its_attempt(
    store: Store,
) -> None:
    member = await waiting(store)
    chunk = await chunk_of(store)
    assert (chunk.status, chunk.blocked_on) == (ChunkStatus.WAITING, BATCH)
    assert (chunk.attempts, chunk.retry_at) == (1, iso(NOW + 5400))  # of 2
    sk = keys.request_sk(chunk.ref.chunk, member.fence, member.part)
    assert (await store.item(chunk.ref.pk, sk))["state"] == "OPEN"


async def test_a_lost_claim_asks_for_nothing(store: Store) -> None:
    claim = await store.running()
    await store.change(fence=claim.fence + 1)
    batching = Batching(NOW + 9, [Request(KEY, "m", NOW, NOW, NOW, 1, {"a": b""}, 1)])
    assert not await store.settlements.batch(claim, batching, calls=Calls(0))
    assert await batches(store).first_asked(PLACE, 9) == []


async def test_a_request_is_closed_and_its_answers_are_booked_once(
    store: Store,
) -> None:
    member = await waiting(store)
    closed = await asyncio.gather(*(close(store, member) for _ in range(8)))
    assert sum(each is not None for each in closed) == 1
    chunk = await chunk_of(store)
    assert chunk.batch_usage.total("paid")["nano_usd"] == 7
    assert chunk.settled_usage.total("paid")["calls"] == 1
    # It is due, and the index has it although no message may follow.
    assert (chunk.retry_at, chunk.blocked_on, chunk.due_at) == ("", "", iso(NOW))


async def test_two_requests_of_a_chunk_are_booked_together(store: Store) -> None:
    member = await waiting(store)
    sk = keys.request_sk(store.chunk.chunk, member.fence, 2)
    await store.put(store.chunk.pk, sk, state="OPEN")
    second = Member(member.job, member.chunk, member.gen, member.fence, 2, 1)
    failed = {NAMES[0]: {"code": "llm.http.529_overloaded"}}
    await asyncio.gather(
        close(store, member, **failed), close(store, second, usage=paid(5))
    )
    chunk = await chunk_of(store)
    assert chunk.batch_usage.total("paid")["nano_usd"] == 12


@pytest.mark.parametrize(
    "moved",
    [
        {"status": ChunkStatus.RUNNING, "blocked_on": ""},
        {"status": ChunkStatus.SUCCEEDED, "blocked_on": ""},
        {"cancel_requested_at": iso(NOW)},
    ],
    ids=["runs", "has ended", "is cancelled"],
)
async def test_a_chunk_that_waits_no_more_is_booked_and_not_woken(
    store: Store, moved: dict[str, Any]
) -> None:
    member = await waiting(store)
    await store.change(**moved)
    closed = await close(store, member)
    assert not closed.is_woken
    chunk = await chunk_of(store)
    assert chunk.batch_usage.total("paid")["nano_usd"] == 7
    assert chunk.retry_at == iso(NOW + 5400)


async def test_a_chunk_that_is_gone_is_not_made(store: Store) -> None:
    member = await waiting(store)
    await store.drop()
    with store.unchanged():
        assert await close(store, member) is None


async def test_an_answer_to_a_request_is_written_once(store: Store) -> None:
    written = await asyncio.gather(
        *(
            batches(store).answer(store.chunk, 3, NAMES[0], '{"text": "x"}', "b1")
            for _ in range(4)
        )
    )
    assert sum(written) == 1


async def test_a_model_has_one_collector_until_its_lease_ends(store: Store) -> None:
    found = batches(store)
    assert await found.need(PLACE, NOW + 60, model="mini") == NOW + 60
    assert await found.need(PLACE, NOW + 99) == NOW + 60
    assert await found.need(PLACE, NOW + 30) == NOW + 30
    fence = await found.take(PLACE, "w1", 120.0)
    assert fence == 1
    assert await found.take(PLACE, "w2", 120.0) is None
    assert await found.renew(PLACE, "w1", fence, 120.0)
    store.now += 121
    assert await found.take(PLACE, "w2", 120.0) == 2
    # The first one is late: it writes nothing more.
    assert not await found.renew(PLACE, "w1", fence, 120.0)
    assert not await found.plan(PLACE, "w1", fence, plan_of("d1"))
    assert not await found.leave(PLACE, "w1", fence, None, [])
    told = {"open_batches": 1, "open_rows": 2, "open_since": "", "error": ""}
    assert await found.leave(PLACE, "w2", 2, store.now, [9], {"job": "j"}, **told)
    assert await found.take(PLACE, "w2", 120.0) == 3
    assert await found.leave(PLACE, "w2", 3, None, [9])
    row = await collector(found)
    assert (row.next_at, row.owner, row.durations) == ("", "", [9.0])
    assert (row.nudge, row.open_batches, row.open_rows) == ({"job": "j"}, 1, 2)


async def test_a_collector_that_ends_sees_each_need_since_it_began(
    store: Store,
) -> None:
    found = batches(store)
    await found.need(PLACE, NOW + 60)
    before = await collector(found)
    fence = await found.take(PLACE, "w1", 120.0) or 0
    store.now += 58  # soon enough that the pass may have begun
    assert await found.need(PLACE, NOW + 200) == NOW + 60
    mine = PLACE, "w1", fence
    assert not await found.leave(*mine, None, [], notes=before.notes)
    assert (await collector(found)).next_at == iso(NOW + 60)
    seen = await collector(found)
    assert await found.leave(*mine, None, [], notes=seen.notes)
    assert (await collector(found)).next_at == ""


async def test_a_gathered_request_that_was_closed_is_told(store: Store) -> None:
    member = await waiting(store)
    (row,) = await batches(store).first_asked(PLACE, 9)
    assert await batches(store).still_open([row]) == ([row], [])
    await close(store, member)
    assert await batches(store).still_open([row]) == ([], [row])


async def collector(found: Batches) -> CollectorRow:
    ((place, row),) = [each async for each in found.collectors()]
    assert place == PLACE
    return row


def plan_of(digest: str) -> dict[str, Any]:
    at = iso(NOW)
    return {
        "tenant": "default",
        "digest": digest,
        "planned_at": at,
        "tried_at": at,
        "until": at,
        "rows": 1,
        "members": pack_members([Member("job", 0, 1, 1, 1, 1)]),
    }


async def test_a_batch_moves_once_through_its_states(store: Store) -> None:
    found = batches(store)
    fence = await found.take(PLACE, "w1", 120.0) or 0
    facts = plan_of("d1")
    assert await found.plan(PLACE, "w1", fence, facts)
    assert not await found.plan(PLACE, "w1", fence, facts)
    row = PlannedRow(facts)
    assert not await found.note(PLACE, row, NOW, polls=1)  # its id is not known
    store.now += 60
    tried = await asyncio.gather(
        *(found.try_again(PLACE, row, doubtful=True) for _ in range(4))
    )
    assert sum(tried) == 1
    assert await found.created(PLACE, row, "b1", NOW + 60)
    assert not await found.created(PLACE, row, "b2", NOW + 60)
    (known,) = await found.open(PLACE)
    assert not await found.try_again(PLACE, known, doubtful=True)
    assert await found.doubt(PLACE, known)
    assert await found.note(PLACE, row, NOW + 120, polls=1)
    assert await found.want(PLACE, row, "cancel", "me", "late")
    (open_,) = await found.open(PLACE)
    assert (open_.id, open_.polls, open_.wanted) == ("b1", 1, "cancel")
    assert open_.doubts == 2
    ended = await asyncio.gather(*(found.end(PLACE, open_, "ENDED") for _ in range(3)))
    assert sum(ended) == 1
    assert await found.open(PLACE) == []
    (last,) = await found.ended(PLACE, 9)
    assert (last.id, last.jobs, last.wanted_by) == ("b1", ["job"], "me")
    assert not await found.want(PLACE, row, "cancel", "me", "late")


async def test_a_call_of_an_operator_stays_until_a_pass_that_saw_it_has_ended(
    store: Store,
) -> None:
    found = batches(store)
    assert not await found.send_back(PLACE)  # nothing has asked
    assert await found.need(PLACE, NOW + 60, model="mini")
    assert await found.send_back(PLACE)
    seen = await collector(found)
    assert (seen.next_at, seen.direct_at) == (iso(NOW), iso(NOW))
    store.now += 1
    assert await found.call(PLACE)
    assert not await found.heard(PLACE, seen)
    assert await found.heard(PLACE, await collector(found))
    assert not await found.heard(PLACE, seen)
    row = await collector(found)
    assert (row.called_at, row.direct_at) == ("", iso(NOW))
