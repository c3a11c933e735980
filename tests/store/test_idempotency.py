"""The records of idempotent operations: who may begin one, and who may end it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from piecework.aws.objects import INLINE_LIMIT
from piecework.domain import keys
from piecework.domain.moments import iso
from piecework.errors import PermanentError, StoreError
from piecework.idempotency.record import (
    BeginRequest,
    Ended,
    Granted,
    InDoubt,
    InProgress,
    Mismatch,
    OperationRef,
    OutOfOrder,
    State,
)
from piecework.standalone import ByKey, idempotent
from piecework.store.idempotency import TableIdempotency
from tests.store.conftest import NOW, Before, Kept, Store, Stutter

REF = OperationRef("key", "payload", operation="book")
OURS = BeginRequest(REF, "ours", lease_s=60, ttl_s=100)
THEIRS = replace(OURS, owner_token="theirs")
ONCE = replace(THEIRS, repeatable=False)


def operations(store: Store) -> TableIdempotency:
    return TableIdempotency(store.table, store.ref.tenant, store.clock, clock_skew_s=5)


def number(n: int, fence: str = "ours", payload: str = "payload") -> BeginRequest:
    return BeginRequest(
        OperationRef("stream", payload, n, "add"), fence, lease_s=60, ttl_s=100
    )


async def row(store: Store, asked: BeginRequest = OURS) -> dict[str, Any]:
    ref = asked.ref
    sk = keys.number_sk(ref.number) if ref.number else keys.RECORD_SK
    return await store.item(keys.idempotency_pk(store.ref.tenant, ref.key), sk)


async def test_an_operation_without_a_record_starts(store: Store) -> None:
    assert await operations(store).begin(OURS) == Granted()
    expected = {
        "v": 1,
        "state": "BEGUN",
        "payload_sha256": "payload",
        "owner_token": "ours",
        "operation": "book",
        "started_at": iso(NOW),
        "lease_until": iso(NOW + 65),
        "valid_until": iso(NOW + 165),
        "expires_at": int(NOW) + 165 + 86_400,
    }
    found = await row(store)
    assert expected == {name: found[name] for name in found if name not in {"pk", "sk"}}


@pytest.mark.parametrize("state", [State.DONE, State.REFUSED])
async def test_what_is_at_its_end_is_not_begun_again(
    store: Store, state: State
) -> None:
    ops = operations(store)
    await ops.begin(OURS)
    assert await ops.settle(OURS, state, '"answer"') is True
    assert await ops.begin(THEIRS) == Ended(state, '"answer"')
    assert (await row(store))["owner_token"] == "ours"


@pytest.mark.parametrize("state", [State.DONE, State.REFUSED])
async def test_an_expired_operation_starts_anew_before_its_deletion(
    store: Store, state: State
) -> None:
    ops = operations(store)
    await ops.begin(OURS)
    await ops.settle(OURS, state, '"answer"')
    store.now = NOW + 99.999
    assert await ops.begin(THEIRS) == Ended(state, '"answer"')
    store.now = NOW + 100
    assert await ops.begin(THEIRS) == Granted()
    assert "value" not in await row(store)


async def test_a_refused_operation_starts_anew(store: Store) -> None:
    ops = operations(store)
    await ops.begin(replace(OURS, repeatable=False))
    await ops.settle(OURS, State.RELEASED)
    assert (await row(store))["expires_at"] == int(NOW) + 86_400
    assert await ops.begin(replace(ONCE, ref=replace(REF, payload="other"))) == (
        Granted()
    )


@pytest.mark.parametrize("state", [State.RELEASED, State.DONE])
async def test_a_begin_that_comes_once_more_after_its_end_begins_nothing(
    store: Store, state: State
) -> None:
    late = Kept(store.client)
    store.client = late
    await operations(store).begin(OURS)
    store.client = late.client
    ops = operations(store)
    await ops.settle(replace(OURS, ttl_s=0), state)
    before = await row(store)
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        await late.once_more()
    assert before == await row(store)
    assert await ops.begin(THEIRS) == Granted()


async def test_an_operation_in_progress_is_owned_until_its_lease_expires(
    store: Store,
) -> None:
    ops = operations(store)
    await ops.begin(OURS)
    store.now = NOW + 64
    assert await ops.begin(THEIRS) == InProgress(1)
    store.now = NOW + 65
    assert await ops.begin(THEIRS) == Granted(doubtful=True)
    assert (await row(store))["owner_token"] == "theirs"


async def test_what_is_in_doubt_is_begun_again_at_once(store: Store) -> None:
    ops = operations(store)
    await ops.begin(OURS)
    await ops.settle(OURS, State.UNKNOWN)
    assert await ops.begin(THEIRS) == Granted(doubtful=True)


@pytest.mark.parametrize("cut_off", [True, False])
async def test_what_must_not_be_repeated_stays_in_doubt_for_ever(
    store: Store, *, cut_off: bool
) -> None:
    ops = operations(store)
    await ops.begin(ONCE)
    if not cut_off:
        await ops.settle(ONCE, State.UNKNOWN)
    store.now = NOW + 1e8
    assert await ops.begin(replace(ONCE, owner_token="next")) == InDoubt()
    assert not {"valid_until", "expires_at"} & set(await row(store))


@pytest.mark.parametrize("state", [None, State.DONE, State.REFUSED, State.UNKNOWN])
async def test_other_arguments_are_a_mismatch(
    store: Store, state: State | None
) -> None:
    ops = operations(store)
    await ops.begin(OURS)
    if state is not None:
        await ops.settle(OURS, state, '"x"')
    other = replace(THEIRS, ref=replace(REF, payload="other"))
    assert await ops.begin(other) == Mismatch()


async def test_one_of_two_takeovers_wins(store: Store) -> None:
    ops = operations(store)
    await ops.begin(OURS)
    await ops.settle(OURS, State.UNKNOWN)
    quick, client = operations(store), store.client
    store.client = Before(
        client, 2, lambda: quick.begin(replace(OURS, owner_token="quick"))
    )
    assert await operations(store).begin(THEIRS) == InProgress(65)
    assert (await row(store))["owner_token"] == "quick"


async def test_a_process_that_always_loses_the_race_is_in_progress(
    store: Store,
) -> None:
    ops, quick = operations(store), operations(store)
    await ops.begin(OURS)
    await ops.settle(OURS, State.UNKNOWN)
    client, fences = store.client, iter("abcdefghijkl")

    async def overtake() -> None:
        asked = replace(OURS, owner_token=next(fences))
        await quick.begin(asked)
        await quick.settle(asked, State.UNKNOWN)
        store.client.left = 1

    store.client = Before(client, 1, overtake)
    assert await operations(store).begin(THEIRS) == InProgress(0.1)


@pytest.mark.parametrize(
    ("state", "verdict"),
    [(State.DONE, Ended(State.DONE, '"late"')), (State.RELEASED, Granted())],
)
async def test_what_comes_to_its_end_at_the_last_moment_is_not_taken_over(
    store: Store, state: State, verdict: Any
) -> None:
    ops = operations(store)
    await ops.begin(OURS)
    store.now = NOW + 65
    store.client = Before(store.client, 2, lambda: ops.settle(OURS, state, '"late"'))
    assert await operations(store).begin(THEIRS) == verdict


@pytest.mark.parametrize("state", list(State)[1:])
async def test_a_process_that_lost_an_operation_does_not_end_it(
    store: Store, state: State
) -> None:
    ops = operations(store)
    await ops.begin(OURS)
    store.now = NOW + 65
    await ops.begin(THEIRS)
    before = await row(store)
    assert await ops.settle(OURS, state, '"x"') is False
    assert before == await row(store)


async def test_what_was_swept_away_is_not_brought_back_by_its_end(
    store: Store,
) -> None:
    assert await operations(store).settle(OURS, State.DONE, '"x"') is False
    assert await row(store) == {}


async def test_an_answer_that_is_too_large_is_not_kept_but_was_given(
    store: Store,
) -> None:
    ops = operations(store)
    await ops.begin(OURS)
    await ops.settle(OURS, State.DONE, "x" * (INLINE_LIMIT + 1))
    assert await ops.begin(THEIRS) == Ended(State.DONE, None)


# ── a chunk asks again with its own token ──────────────────────────────────────


async def test_a_takeover_continues_its_own_record_with_a_new_lease(
    store: Store,
) -> None:
    ops = operations(store)
    await ops.begin(OURS)
    store.now = NOW + 50
    assert await ops.begin(OURS) == Granted()
    store.now = NOW + 114
    assert await ops.begin(THEIRS) == InProgress(1)


@pytest.mark.parametrize("state", [State.UNKNOWN, State.RELEASED])
async def test_an_own_failure_is_begun_again(store: Store, state: State) -> None:
    ops = operations(store)
    await ops.begin(OURS)
    await ops.settle(OURS, state)
    store.now = NOW + 1
    assert await ops.begin(OURS) == Granted()
    assert await ops.begin(THEIRS) == InProgress(65)


async def test_an_own_answer_is_given_until_it_expires(store: Store) -> None:
    ops = operations(store)
    await ops.begin(OURS)
    await ops.settle(OURS, State.DONE, '"answer"')
    assert await ops.begin(OURS) == Ended(State.DONE, '"answer"', own=True)
    store.now = NOW + 100
    assert await ops.begin(OURS) == Granted()
    assert await ops.begin(THEIRS) == InProgress(65)


async def test_a_record_that_its_owner_continues_is_not_taken_over(
    store: Store,
) -> None:
    ops = operations(store)
    await ops.begin(OURS)
    store.now = NOW + 65
    store.client = Before(store.client, 2, lambda: ops.begin(OURS))
    assert await operations(store).begin(THEIRS) == InProgress(65)
    assert (await row(store))["owner_token"] == "ours"


@pytest.mark.parametrize("state", [State.UNKNOWN, State.RELEASED, State.DONE])
async def test_an_earlier_claim_does_not_replace_the_answer_of_a_later_one(
    store: Store, state: State
) -> None:
    ops = operations(store)
    await ops.begin(OURS)
    await ops.settle(OURS, State.DONE, '"answer"')
    assert await ops.settle(OURS, state, '"late"') is (state is State.DONE)
    assert await ops.begin(THEIRS) == Ended(State.DONE, '"answer"')


# ── a person decides ────────────────────────────────────────────────────────


@pytest.mark.parametrize("cut_off", [True, False])
async def test_what_is_in_doubt_can_be_released(store: Store, *, cut_off: bool) -> None:
    ops = operations(store)
    await ops.begin(ONCE)
    if not cut_off:
        await ops.settle(ONCE, State.UNKNOWN)
    store.now = NOW + (65 if cut_off else 0)
    assert await ops.release(REF) is True
    assert (await row(store))["expires_at"] == int(store.now) + 86_400
    assert await ops.begin(replace(ONCE, owner_token="next")) == Granted()


@pytest.mark.parametrize("state", [None, State.DONE, State.REFUSED, State.RELEASED])
async def test_what_is_in_no_doubt_is_not_released(
    store: Store, state: State | None
) -> None:
    ops = operations(store)
    assert await ops.release(REF) is False
    await ops.begin(ONCE)
    if state is not None:
        await ops.settle(ONCE, state)
    before = await row(store)
    assert await ops.release(REF) is False
    assert before == await row(store)


@pytest.mark.parametrize("verb", ["settle", "begin", "continue"])
async def test_a_release_that_comes_too_late_changes_nothing(
    store: Store, verb: str
) -> None:
    ops = operations(store)
    await ops.begin(OURS)
    store.now = NOW + 65

    async def happens() -> None:
        if verb == "settle":
            await ops.settle(OURS, State.DONE, '"x"')
        else:
            await ops.begin(THEIRS if verb == "begin" else OURS)

    store.client = Before(store.client, 1, happens)
    assert await operations(store).release(REF) is False
    assert (await row(store))["state"] == ("DONE" if verb == "settle" else "BEGUN")


async def test_the_doubt_of_another_call_is_not_released(store: Store) -> None:
    ops = operations(store)
    await ops.begin(OURS)
    await ops.settle(OURS, State.UNKNOWN)
    quick = replace(OURS, owner_token="quick")

    async def fails_too() -> None:
        await ops.begin(quick)
        await ops.settle(quick, State.UNKNOWN)

    store.client = Before(store.client, 1, fails_too)
    assert await operations(store).release(REF) is False
    assert (await row(store))["state"] == "UNKNOWN"


# ── streams ─────────────────────────────────────────────────────────────────


async def test_numbers_begin_in_their_order(store: Store) -> None:
    ops = operations(store)
    assert await ops.begin(number(2)) == OutOfOrder(1)
    for n in (1, 2, 3):
        assert await ops.begin(number(n)) == Granted()
        assert await ops.begin(number(n + 1)) == OutOfOrder(n)
        assert await ops.settle(number(n), State.DONE, f'"{n}"') is True
    assert await ops.begin(number(2, "theirs")) == Ended(State.DONE, '"2"')
    assert await ops.begin(number(9)) == OutOfOrder(4)


async def test_a_number_is_owned_taken_over_and_ended_like_any_operation(
    store: Store,
) -> None:
    ops = operations(store)
    await ops.begin(number(1))
    assert await ops.begin(number(1, "theirs")) == InProgress(65)
    assert await ops.begin(number(1, "theirs", "other")) == Mismatch()
    store.now = NOW + 65
    assert await ops.begin(number(1, "theirs")) == Granted(doubtful=True)
    assert await ops.settle(number(1, "ours"), State.DONE, '"x"') is False
    assert await ops.begin(number(2)) == OutOfOrder(1)
    assert await ops.settle(number(1, "theirs"), State.UNKNOWN) is True
    assert await ops.begin(number(2)) == OutOfOrder(1)


async def test_a_past_number_never_begins_again(store: Store) -> None:
    ops = operations(store)
    for n in (1, 2):
        await ops.begin(number(n))
        await ops.settle(number(n), State.DONE, '"x"')
    assert await ops.begin(number(1, "theirs", "other")) == Mismatch()
    store.now = NOW + 1000
    for n in (1, 2):
        assert await ops.begin(number(n, "theirs")) == Ended(State.DONE, None)


@pytest.mark.parametrize("n", [1, 2])
async def test_the_end_of_a_number_that_is_not_due_changes_nothing(
    store: Store, n: int
) -> None:
    ops = operations(store)
    for each in range(1, n + 1):
        await ops.begin(number(each))
        await ops.settle(number(each), State.DONE, '"x"')
    pk = keys.idempotency_pk(store.ref.tenant, "stream")
    await store.put(pk, keys.HEAD_SK, due_number=9)
    assert await ops.settle(number(n), State.DONE, '"y"') is False
    assert (await store.item(pk, keys.HEAD_SK))["due_number"] == 9


async def test_a_number_that_becomes_due_at_the_last_moment_begins(
    store: Store,
) -> None:
    ops = operations(store)
    await ops.begin(number(1))

    async def happens() -> None:
        await ops.settle(number(1), State.DONE, '"x"')

    store.client = Before(store.client, 1, happens)
    assert await operations(store).begin(number(2)) == Granted()


# ── answers that are lost on their way ──────────────────────────────────────


async def test_a_write_whose_answer_was_lost_is_known_again(store: Store) -> None:
    store.client = Stutter(store.client)
    ops = operations(store)
    assert await ops.begin(OURS) == Granted()
    assert await ops.settle(OURS, State.UNKNOWN) is True
    assert await ops.begin(THEIRS) == Granted(doubtful=True)
    assert await ops.settle(THEIRS, State.DONE, '"x"') is True


async def test_a_number_whose_begin_was_answered_in_vain_is_known_again(
    store: Store,
) -> None:
    ops = operations(store)
    assert await ops.begin(number(1)) == Granted()
    assert await ops.begin(number(1)) == Granted()


# ── all together ────────────────────────────────────────────────────────────


async def test_two_processes_do_an_operation_once(store: Store) -> None:
    made: list[str] = []

    async def book(flight: str) -> str:
        made.append(flight)
        return f"seat {len(made)}"

    one, other = (
        idempotent(operations(store), scope="user-7", operation="book")(book)
        for _ in range(2)
    )
    assert [await one("LH 1"), await other("LH 1")] == ["seat 1"] * 2
    assert made == ["LH 1"]


async def test_tenants_never_meet(store: Store) -> None:
    async def book(flight: str) -> str:
        return flight

    for tenant in ("a", "b"):
        table = TableIdempotency(
            store.table, f"{store.ref.tenant}-{tenant}", store.clock
        )
        by = ByKey(of=lambda flight: 1)
        guard = idempotent(table, scope="s", operation="book", by=by)(book)
        assert await guard(tenant) == tenant
        with pytest.raises(PermanentError) as caught:
            await guard("other")
        assert caught.value.code == "idempotency.key.mismatch"


async def test_a_table_that_is_away_is_a_store_error(store: Store) -> None:
    table = replace(store.table, name="absent")
    with pytest.raises(StoreError):
        await TableIdempotency(table, "t", store.clock).begin(OURS)
