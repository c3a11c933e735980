"""The fleet's breakers move on from what was seen, and one call alone is the probe."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from piecework.calls.fleet_breaker import BreakerSnapshot, SyncedBreaker
from piecework.domain import keys
from piecework.domain.moments import iso
from piecework.resilience.breaker import (
    BreakerPhase,
    BreakerState,
    CircuitBreaker,
    Heard,
)
from piecework.store.breakers import Breakers
from tests.store.conftest import NOW, Store, Stutter

BreakerWrite = Callable[[Breakers, str], Awaitable[BreakerSnapshot | None]]


def breakers(store: Store, worker: str = "worker") -> Breakers:
    return Breakers(store.table, worker, store.clock)


def name(store: Store) -> str:
    """Return a dependency of this test's own: the rows are the deployment's."""
    return f"model-{store.ref.tenant}"


async def put_breaker(store: Store, **facts: Any) -> None:
    """Lay an open breaker down, whose time is over, with our probe under way."""
    item = {
        "breaker_state": "open",
        "gen": 3,
        "open_until": iso(NOW),
        "failed_probes": 1,
        "probe_token": "ours",
        "probe_until": iso(NOW + 60),
        "probed_by": "worker",
        **facts,
    }
    item = {key: value for key, value in item.items() if value is not None}
    await store.put(keys.BREAKERS_PK, name(store), **item)


NOT_PROBED = {"probe_token": None, "probe_until": None, "probed_by": None}
CLOSED = {"breaker_state": "closed", "open_until": None, **NOT_PROBED}
UNTIL = NOW + 30


async def row(store: Store) -> dict[str, Any]:
    return await store.item(keys.BREAKERS_PK, name(store))


async def opened(at: Breakers, of: str) -> BreakerSnapshot | None:
    return await at.open(of, 3, UNTIL, "tool.http.timeout")


async def probed(at: Breakers, of: str) -> BreakerSnapshot | None:
    return await at.take_probe(of, 3, "new", NOW + 65)


async def release_probe(at: Breakers, of: str) -> BreakerSnapshot | None:
    return await at.release_probe(of, 3, "ours")


async def reopened(at: Breakers, of: str) -> BreakerSnapshot | None:
    return await at.reopen(of, 3, "ours", UNTIL, 2)


async def closed(at: Breakers, of: str) -> BreakerSnapshot | None:
    return await at.close(of, 3, "ours")


HEARD = Heard({"t/j/1": NOW - 9}, {"t/j/2": NOW - 3, "t/j/3": NOW - 1})
HEARD_ROW = {
    "failing": {"t/j/1": iso(NOW - 9)},
    "answered": {"t/j/2": iso(NOW - 3), "t/j/3": iso(NOW - 1)},
}


async def heard(at: Breakers, of: str) -> BreakerSnapshot | None:
    return await at.set_heard(of, 3, 5, HEARD)


#: What must lie there, what the write leaves, and by what it is refused.
WRITES: dict[
    str, tuple[BreakerWrite, dict[str, Any], dict[str, Any], list[dict[str, Any]]]
] = {
    "open": (
        opened,
        CLOSED,
        {
            "breaker_state": "open",
            "gen": 4,
            "open_until": iso(UNTIL),
            "opened_at": iso(NOW),
            "opened_by": "worker",
            "error_code": "tool.http.timeout",
        },
        [{"gen": 4}, {"gen": 2}],
    ),
    "probe": (
        probed,
        NOT_PROBED,
        {
            "breaker_state": "open",
            "gen": 3,
            "probe_token": "new",
            "probe_until": iso(NOW + 65),
            "probed_by": "worker",
        },
        [{"gen": 4}, {"probe_until": iso(NOW + 1)}, {"probe_until": iso(NOW)}],
    ),
    "give back": (
        release_probe,
        {},
        {"breaker_state": "open", "gen": 3, "open_until": iso(NOW), **NOT_PROBED},
        [{"gen": 4}, {"probe_token": "theirs"}],
    ),
    "reopen": (
        reopened,
        {},
        {
            "breaker_state": "open",
            "gen": 4,
            "open_until": iso(UNTIL),
            "failed_probes": 2,
            "opened_at": iso(NOW),
            "opened_by": "worker",
            **NOT_PROBED,
        },
        [{"gen": 4}, {"probe_token": "theirs"}],
    ),
    "close": (
        closed,
        {},
        {
            "breaker_state": "closed",
            "gen": 4,
            "open_until": None,
            "failed_probes": None,
            "closed_at": iso(NOW),
            "closed_by": "worker",
            **NOT_PROBED,
        },
        [{"gen": 4}, {"probe_token": "theirs"}],
    ),
    "hear": (
        heard,
        {"heard_seq": 5},
        {"gen": 3, "heard_seq": 6, "probe_token": "ours", **HEARD_ROW},
        [{"gen": 4}, {"heard_seq": 6}, {"heard_seq": None}],
    ),
}


@pytest.mark.parametrize("verb", list(WRITES))
async def test_a_breaker_as_it_was_seen_moves_on(store: Store, verb: str) -> None:
    write, before, left, _ = WRITES[verb]
    await put_breaker(store, **before)
    assert await write(breakers(store), name(store)) is None
    after = await row(store)
    assert left == {key: after.get(key) for key in left}


@pytest.mark.parametrize(
    ("verb", "change"),
    [(verb, change) for verb, (_, _, _, no) in WRITES.items() for change in no],
)
async def test_a_write_on_an_old_breaker_state_returns_the_current_one(
    store: Store, verb: str, change: dict[str, Any]
) -> None:
    write, before, _, _ = WRITES[verb]
    await put_breaker(store, **(before | change))
    lies = await row(store)
    stands = await write(breakers(store), name(store))
    assert lies == await row(store)
    assert stands is not None
    assert stands.gen == lies["gen"]
    assert (
        await breakers(store).read_all() | {name(store): stands}
        == await breakers(store).read_all()
    )


@pytest.mark.parametrize("verb", ["probe", "give back", "reopen", "close"])
async def test_only_opening_makes_a_row(store: Store, verb: str) -> None:
    write, *_ = WRITES[verb]
    assert BreakerSnapshot() == await write(breakers(store), name(store))
    assert {} == await row(store)


async def test_the_first_failing_chunk_makes_a_closed_row(store: Store) -> None:
    assert await breakers(store).set_heard(name(store), 0, 0, HEARD) is None
    expected = BreakerSnapshot(heard=HEARD, heard_seq=1)
    assert expected == (await breakers(store).read_all())[name(store)]
    assert await breakers(store).open(name(store), 0, UNTIL, "c") is None


async def test_the_first_failure_of_all_makes_the_row(store: Store) -> None:
    assert await breakers(store).open(name(store), 0, UNTIL, "c") is None
    assert (
        BreakerSnapshot(1, BreakerPhase.OPEN, UNTIL, failure_code="c")
        == (await breakers(store).read_all())[name(store)]
    )
    stands = await breakers(store).open(name(store), 0, UNTIL + 9, "c")
    assert BreakerSnapshot(1, BreakerPhase.OPEN, UNTIL, failure_code="c") == stands


async def test_what_was_heard_is_written_once(store: Store) -> None:
    """The record has milliseconds; the clock of a worker has more."""
    at, of, began = breakers(store), name(store), NOW - 8.7654321
    here = SyncedBreaker(BreakerState(CircuitBreaker(), Random(1)))
    here.state.heard = (
        Heard()
        .with_failing({"t/j/1": NOW - 9.87654321}, NOW)
        .with_answer("t/j/2", began)
    )
    await here.write_change(of, at)
    here.apply_read((await at.read_all())[of])

    assert not here.has_change
    assert 1 == here.recorded.heard_seq


async def test_of_many_that_want_to_probe_one_may(store: Store) -> None:
    await put_breaker(store, **NOT_PROBED)
    asked = (
        breakers(store, f"w{n}").take_probe(name(store), 3, f"t{n}", NOW + 65)
        for n in range(16)
    )
    answers = await asyncio.gather(*asked)
    assert 1 == answers.count(None)
    (other, *_) = [answer for answer in answers if answer is not None]
    assert BreakerSnapshot(3, BreakerPhase.OPEN, NOW, 1, NOW + 65) == other


async def test_a_probe_whose_worker_died_is_taken_over(store: Store) -> None:
    await put_breaker(store, probe_until=iso(NOW - 1), probe_token="theirs")
    assert await probed(breakers(store), name(store)) is None


async def test_a_probe_whose_answer_was_lost_is_owned(store: Store) -> None:
    await put_breaker(store, **NOT_PROBED)
    store.client = Stutter(store.client)
    assert await probed(breakers(store), name(store)) is None
    assert 1 == store.client.sent
