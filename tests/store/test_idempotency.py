"""The records of idempotent operations: who may begin one, and who may end it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
QUICK = replace(OURS, owner_token="quick")
ONCE = replace(THEIRS, repeatable=False)
NEXT = replace(ONCE, owner_token="next")
OTHER = replace(REF, payload="other")
DONE, REFUSED, RELEASED, UNKNOWN = list(State)[1:]
GRANTED, DOUBTFUL = Granted(), Granted(doubtful=True)
DAY = 86_400


def operations(store: Store) -> TableIdempotency:
    return TableIdempotency(store.table, store.ref.tenant, store.clock, clock_skew_s=5)


def number(n: int, fence: str = "ours", payload: str = "payload") -> BeginRequest:
    return BeginRequest(
        OperationRef("stream", payload, n, "add"), fence, lease_s=60, ttl_s=100
    )


@dataclass(frozen=True)
class Step:
    """An act, so many seconds after NOW; its answer, and what its row has then."""

    verb: str
    asked: BeginRequest
    arguments: tuple[Any, ...]
    answer: Any
    at: float | None = None
    row: dict[str, Any] = field(default_factory=dict)


def begin(
    asked: BeginRequest, answer: Any = GRANTED, at: float | None = None, **row: Any
) -> Step:
    return Step("begin", asked, (asked,), answer, at, row)


def settle(
    asked: BeginRequest,
    state: State,
    value: Any = None,
    *,
    ours: bool = True,
    **row: Any,
) -> Step:
    return Step("settle", asked, (asked, state, value), ours, row=row)


def release(*, done: bool, at: float | None = None, **row: Any) -> Step:
    return Step("release", OURS, (REF,), done, at, row)


async def play(store: Store, steps: Sequence[Step], *, alone: bool = True) -> None:
    """Take the steps; one that is refused changes nothing, if no other acts with it."""
    for step in steps:
        store.now = store.now if step.at is None else NOW + step.at
        act = getattr(operations(store), step.verb)(*step.arguments)
        answer, changed = await store.does(act)
        assert step.answer == answer, step
        writes = answer is True or isinstance(answer, Granted)
        assert changed == {} or writes or not alone, step
        ref = step.asked.ref
        sk = keys.number_sk(ref.number) if ref.number else keys.RECORD_SK
        row = await store.item(keys.idempotency_pk(store.ref.tenant, ref.key), sk)
        assert step.row == {name: row.get(name) for name in step.row}, step


SCRIPTS: dict[str, list[Step]] = {
    "an operation without a record starts": [
        begin(
            OURS,
            v=1,
            state="BEGUN",
            payload_sha256="payload",
            owner_token="ours",
            operation="book",
            started_at=iso(NOW),
            lease_until=iso(NOW + 65),
            valid_until=iso(NOW + 165),
            expires_at=int(NOW) + 165 + DAY,
        )
    ],
    **{
        f"{state} is the answer until it expires, before its deletion": [
            begin(OURS),
            settle(OURS, state, '"answer"'),
            begin(THEIRS, Ended(state, '"answer"'), owner_token="ours"),
            begin(THEIRS, Ended(state, '"answer"'), at=99.999),
            begin(THEIRS, at=100, value=None),
        ]
        for state in (DONE, REFUSED)
    },
    "what certainly did not happen starts anew, with any arguments": [
        begin(replace(OURS, repeatable=False)),
        settle(OURS, RELEASED, expires_at=int(NOW) + DAY),
        begin(replace(ONCE, ref=OTHER)),
    ],
    "an operation in progress is owned until its lease expires": [
        begin(OURS),
        begin(THEIRS, InProgress(1), at=64),
        begin(THEIRS, DOUBTFUL, at=65, owner_token="theirs"),
    ],
    "what is in doubt is begun again at once": [
        begin(OURS),
        settle(OURS, UNKNOWN),
        begin(THEIRS, DOUBTFUL),
    ],
    **{
        f"what must not be repeated stays in doubt for ever: {len(end)} ends": [
            begin(ONCE),
            *end,
            begin(NEXT, InDoubt(), at=1e8, valid_until=None, expires_at=None),
        ]
        for end in ([], [settle(ONCE, UNKNOWN)])
    },
    **{
        f"a process that lost an operation does not end it: {state}": [
            begin(OURS),
            begin(THEIRS, DOUBTFUL, at=65),
            settle(OURS, state, '"x"', ours=False),
        ]
        for state in list(State)[1:]
    },
    "what was swept away is not brought back by its end": [
        settle(OURS, DONE, '"x"', ours=False, v=None)
    ],
    "an answer that is too large is not kept but was given": [
        begin(OURS),
        settle(OURS, DONE, "x" * (INLINE_LIMIT + 1)),
        begin(THEIRS, Ended(DONE, None)),
    ],
    # A chunk asks again with its own token.
    "a takeover continues its own record with a new lease": [
        begin(OURS),
        begin(OURS, at=50),
        begin(THEIRS, InProgress(1), at=114),
    ],
    **{
        f"an own failure is begun again: {state}": [
            begin(OURS),
            settle(OURS, state),
            begin(OURS, at=1),
            begin(THEIRS, InProgress(65)),
        ]
        for state in (UNKNOWN, RELEASED)
    },
    "an own answer is given until it expires": [
        begin(OURS),
        settle(OURS, DONE, '"answer"'),
        begin(OURS, Ended(DONE, '"answer"', own=True)),
        begin(OURS, at=100),
        begin(THEIRS, InProgress(65)),
    ],
    **{
        f"an earlier claim does not replace the answer of a later one: {state}": [
            begin(OURS),
            settle(OURS, DONE, '"answer"'),
            settle(OURS, state, '"late"', ours=state is DONE),
            begin(THEIRS, Ended(DONE, '"answer"')),
        ]
        for state in (UNKNOWN, RELEASED, DONE)
    },
    # A person decides.
    "an operation that was cut off can be released": [
        begin(ONCE),
        release(done=True, at=65, expires_at=int(NOW) + 65 + DAY),
        begin(NEXT),
    ],
    "what is in doubt can be released": [
        begin(ONCE),
        settle(ONCE, UNKNOWN),
        release(done=True, expires_at=int(NOW) + DAY),
        begin(NEXT),
    ],
    **{
        f"what is in no doubt is not released: {state}": [
            release(done=False),
            begin(ONCE),
            *([settle(ONCE, state)] if state else []),
            release(done=False),
        ]
        for state in (None, DONE, REFUSED, RELEASED)
    },
    # Streams.
    "numbers begin in their order": [
        begin(number(2), OutOfOrder(1)),
        *(
            step
            for n in (1, 2, 3)
            for step in (
                begin(number(n)),
                begin(number(n + 1), OutOfOrder(n)),
                settle(number(n), DONE, f'"{n}"'),
            )
        ),
        begin(number(2, "theirs"), Ended(DONE, '"2"')),
        begin(number(9), OutOfOrder(4)),
    ],
    "a number is owned, taken over and ended like any operation": [
        begin(number(1)),
        begin(number(1, "theirs"), InProgress(65)),
        begin(number(1, "theirs", "other"), Mismatch()),
        begin(number(1, "theirs"), DOUBTFUL, at=65),
        settle(number(1), DONE, '"x"', ours=False),
        begin(number(2), OutOfOrder(1)),
        settle(number(1, "theirs"), UNKNOWN),
        begin(number(2), OutOfOrder(1)),
    ],
    "a past number never begins again": [
        *(
            step
            for n in (1, 2)
            for step in (begin(number(n)), settle(number(n), DONE, '"x"'))
        ),
        begin(number(1, "theirs", "other"), Mismatch()),
        *(begin(number(n, "theirs"), Ended(DONE, None), at=1000) for n in (1, 2)),
    ],
    "a number whose begin was answered in vain is known again": [
        begin(number(1)),
        begin(number(1)),
    ],
}


@pytest.mark.parametrize("name", list(SCRIPTS))
async def test_the_record_answers_each_step(store: Store, name: str) -> None:
    await play(store, SCRIPTS[name])


@pytest.mark.parametrize("state", [None, DONE, REFUSED, UNKNOWN])
async def test_other_arguments_are_a_mismatch(
    store: Store, state: State | None
) -> None:
    ended = [settle(OURS, state, '"x"')] if state else []
    other = begin(replace(THEIRS, ref=OTHER), Mismatch())
    await play(store, [begin(OURS), *ended, other])


async def test_a_write_whose_answer_was_lost_is_known_again(store: Store) -> None:
    store.client = Stutter(store.client)
    ours = [begin(OURS), settle(OURS, UNKNOWN)]
    await play(store, [*ours, begin(THEIRS, DOUBTFUL), settle(THEIRS, DONE, '"x"')])


#: What was, the number of the write before which others act, and what they do; what is
#: asked then, and its answer.
RACES: dict[str, tuple[list[Step], int, list[Step], Step]] = {
    "one of two takeovers wins": (
        [begin(OURS), settle(OURS, UNKNOWN)],
        2,
        [begin(QUICK, DOUBTFUL)],
        begin(THEIRS, InProgress(65), owner_token="quick"),
    ),
    **{
        f"what comes to its end at the last moment is not taken over: {state}": (
            [begin(OURS)],
            2,
            [settle(OURS, state, '"late"')],
            begin(THEIRS, answer, at=65),
        )
        for state, answer in ((DONE, Ended(DONE, '"late"')), (RELEASED, GRANTED))
    },
    "a record that its owner continues is not taken over": (
        [begin(OURS)],
        2,
        [begin(OURS)],
        begin(THEIRS, InProgress(65), at=65, owner_token="ours"),
    ),
    **{
        f"a release that comes too late changes nothing: {first.verb} {state}": (
            [begin(OURS)],
            1,
            [first],
            release(done=False, at=65, state=state),
        )
        for first, state in (
            (settle(OURS, DONE, '"x"'), "DONE"),
            (begin(THEIRS, DOUBTFUL), "BEGUN"),
        )
    },
    "what its owner continues is not released": (
        [begin(OURS)],
        1,
        [begin(OURS)],
        release(done=False, at=65, state="BEGUN"),
    ),
    "the doubt of another call is not released": (
        [begin(OURS), settle(OURS, UNKNOWN)],
        1,
        [begin(QUICK, DOUBTFUL), settle(QUICK, UNKNOWN)],
        release(done=False, state="UNKNOWN"),
    ),
    "a number that becomes due at the last moment begins": (
        [begin(number(1))],
        1,
        [settle(number(1), DONE, '"x"')],
        begin(number(2)),
    ),
}


@pytest.mark.parametrize("name", list(RACES))
async def test_of_two_processes_the_earlier_write_counts(
    store: Store, name: str
) -> None:
    before, nth, others, asked = RACES[name]
    await play(store, before)
    there = replace(store)
    there.now = store.now if asked.at is None else NOW + asked.at
    store.client = Before(store.client, nth, lambda: play(there, others, alone=False))
    await play(store, [asked], alone=False)
    assert store.client.left <= 0


async def test_a_process_that_always_loses_the_race_is_in_progress(
    store: Store,
) -> None:
    ops = operations(store)
    await play(store, [begin(OURS), settle(OURS, UNKNOWN)])
    client, fences = store.client, iter("abcdefghijkl")

    async def overtake() -> None:
        asked = replace(OURS, owner_token=next(fences))
        await ops.begin(asked)
        await ops.settle(asked, UNKNOWN)
        store.client.left = 1

    store.client = Before(client, 1, overtake)
    assert await operations(store).begin(THEIRS) == InProgress(0.1)


@pytest.mark.parametrize("state", [RELEASED, DONE])
async def test_a_begin_that_comes_once_more_after_its_end_begins_nothing(
    store: Store, state: State
) -> None:
    store.client = late = Kept(store.client)
    await play(store, [begin(OURS)])
    store.client = late.client
    await play(store, [settle(replace(OURS, ttl_s=0), state)])
    with store.unchanged(), pytest.raises(ClientError, match="ConditionalCheckFailed"):
        await late.once_more()
    await play(store, [begin(THEIRS)])


@pytest.mark.parametrize("n", [1, 2])
async def test_the_end_of_a_number_that_is_not_due_changes_nothing(
    store: Store, n: int
) -> None:
    for each in range(1, n + 1):
        await play(store, [begin(number(each)), settle(number(each), DONE, '"x"')])
    pk = keys.idempotency_pk(store.ref.tenant, "stream")
    await store.put(pk, keys.HEAD_SK, due_number=9)
    await play(store, [settle(number(n), DONE, '"y"', ours=False)])


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
        table = TableIdempotency(store.table, tenant, store.clock)
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
