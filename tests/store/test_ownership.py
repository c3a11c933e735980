"""Every write of an owner: applied once under its claim, never afterwards."""

from __future__ import annotations

import asyncio

import pytest
from botocore.exceptions import ClientError

from piecework.domain.protocols import CancelRequestedError, ClaimLostError
from tests.store.conftest import Kept, Store, Stutter
from tests.store.table import Case
from tests.store.test_claims import NOT_OURS
from tests.store.writes import (
    CANCELLED,
    ENDS,
    STEPS,
    Write,
    begin,
    begin_compensation,
    cancel,
    complete_long,
    complete_null,
    complete_value,
    named,
    record_compensation,
    succeed_with_value,
)


def case_of(write: Write) -> Case:
    return Case(
        name=write.__name__,
        before=lambda store: store.running(),
        act=write,
        left={"calls": 5} if write in ENDS else {},
        moved=list(NOT_OURS.values()),
        refused=False if write in ENDS else ClaimLostError,
        requests=1,
    )


CASES = [case_of(write) for write in STEPS + ENDS]


@named(ENDS)
async def test_an_end_of_another_claim_is_not_the_own_write(
    store: Store, write: Write
) -> None:
    claim = await store.running()
    await write(store, claim)
    await store.change(fence=5, claim_token="theirs")
    for facts in ({}, {"fence": 4, "claim_token": "ours", "gen": 3}):
        await store.change(**facts)
        assert (False, {}) == await store.does(write(store, claim))
    await store.change(gen=2)
    assert await write(store, claim) is True


@named(ENDS)
async def test_of_many_ends_one_is_written(store: Store, write: Write) -> None:
    claim = await store.running()
    await asyncio.gather(*(write(store, claim) for _ in range(8)))
    assert (await store.item())["calls"] == 5


@named([complete_null, complete_value])
async def test_a_cancel_stops_a_chunk_between_two_stages(
    store: Store, write: Write
) -> None:
    claim = await store.running(cancel_requested_at=True)
    with store.unchanged(), pytest.raises(CancelRequestedError):
        await write(store, claim)


async def test_a_cancel_between_two_sends_of_a_step_comes_after_it(
    store: Store,
) -> None:
    claim = await store.running(gen=1)
    client = store.client

    async def request_to_cancel() -> None:
        store.client = client
        await store.change(cancel_requested_at=True)

    checkpoints = store.checkpoints(claim)
    checkpoints.table.client = Stutter(client, request_to_cancel)
    await checkpoints.complete(0, "null", "second")
    assert checkpoints.completed == {"first": "null"}


async def test_a_step_that_comes_once_more_after_the_next_takes_nothing_back(
    store: Store,
) -> None:
    claim = await store.running(gen=1)
    late = Kept(store.client)
    checkpoints = store.checkpoints(claim)
    checkpoints.table.client = late
    await checkpoints.complete(0, "null", "second")
    checkpoints.table.client = late.client
    await checkpoints.complete(1, '"value"', "third")
    with store.unchanged(), pytest.raises(ClientError, match="ConditionalCheckFailed"):
        await late.once_more()


async def test_a_step_that_comes_once_more_takes_no_later_stage_back(
    store: Store,
) -> None:
    """Code with other stages moves the cursor back to a stage that it has left."""
    claim = await store.running(gen=1)
    late = Kept(store.client)
    checkpoints = store.checkpoints(claim)
    checkpoints.table.client = late
    await checkpoints.complete(1, "null", "third")
    checkpoints.table.client = late.client
    store.now += 1
    await checkpoints.complete(2, '"value"', "first")
    with store.unchanged(), pytest.raises(ClientError, match="ConditionalCheckFailed"):
        await late.once_more()
    assert ["second", "third"] == [*(await store.item())["stages"]]


async def test_a_large_value_that_comes_once_more_replaces_nothing(
    store: Store,
) -> None:
    claim = await store.running(gen=1)
    store.client = Stutter(store.client)
    await complete_long(store, claim)
    assert 2 == store.client.sent
    assert '"xx' == (await store.item(sk="WORK#00000003#STAGE#first#0004"))["value"][:3]


@named([begin_compensation, record_compensation, begin, *ENDS])
async def test_a_cancel_does_not_keep_a_chunk_from_ending(
    store: Store, write: Write
) -> None:
    claim = await store.running(cancel_requested_at=True)
    assert await write(store, claim) is not False


async def test_a_small_result_lies_on_the_item_of_its_chunk(store: Store) -> None:
    claim = await store.running()
    assert await succeed_with_value(store, claim) is True
    assert '"last"' == (await store.item())["value"]


async def test_a_compensated_chunk_says_so_and_where_it_continues(store: Store) -> None:
    claim = await store.running()
    assert await cancel(store, claim) is True
    item = await store.item()
    assert ("first", CANCELLED.compensation) == (
        item["resume_at"],
        item["compensation"],
    )
