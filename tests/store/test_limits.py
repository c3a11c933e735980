"""A reservation follows the quota that was read; an operator's limits stand apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from piecework.domain import keys
from piecework.errors import SchemaTooNewError
from piecework.resilience.limits import Limits, Quota, Reply
from piecework.resilience.pace import Pace
from piecework.resilience.shares import Share
from piecework.store.breakers import Breakers
from piecework.store.limits import Quotas, read_quota
from piecework.store.table import Table
from tests.store.conftest import SETTINGS, Store, Stutter

QUOTA = Quota(
    seq=1,
    declared=Limits(600, 200_000, requests_per_second=10),
    requests_next=1_700_000_000_000_000,
    tokens_next=1_700_000_000_500_000,
    turns={"w1": Share(4, 7, 1_700_000_009_000_000)},
    pace=Pace(300_000, 1_700_000_000_000_000, 1_700_000_001_000_000, doubles=True),
)


def quotas(store: Store, client: Any = None) -> Quotas:
    table = Table(client or store.client, SETTINGS.checkpoints_table, store.rng)
    return Quotas(table, "worker", store.clock, store.rng)


def name(store: Store) -> str:
    """Return a dependency of this test's own: the rows are the deployment's."""
    return f"limited-{store.ref.tenant}"


async def test_the_first_reservation_creates_the_row_and_the_next_follows_it(
    store: Store,
) -> None:
    at, of = quotas(store), name(store)
    assert Quota() == await at.read(of)
    assert Reply(QUOTA, ours=True) == await at.write(of, 0, QUOTA)
    second = replace(QUOTA, seq=2, requests_next=QUOTA.requests_next + 100)
    assert Reply(second, ours=True) == await at.write(of, 1, second)
    assert second == await at.read(of)


async def test_a_lost_race_changes_nothing_and_returns_the_current_row(
    store: Store,
) -> None:
    at, of = quotas(store), name(store)
    await at.write(of, 0, QUOTA)
    late = replace(QUOTA, requests_next=QUOTA.requests_next + 100)
    assert Reply(QUOTA, ours=False) == await at.write(of, 0, late)
    assert QUOTA == await at.read(of)


async def test_a_reservation_that_is_sent_twice_is_ours(store: Store) -> None:
    client = Stutter(store.client)
    reply = await quotas(store, client).write(name(store), 0, QUOTA)
    assert (Reply(QUOTA, ours=True), 1) == (reply, client.sent)


async def test_an_operators_limits_survive_reservations_until_they_are_removed(
    store: Store,
) -> None:
    at, of = quotas(store), name(store)
    limits = Limits(requests_per_minute=30)
    assert limits == read_quota(await at.set_limits(of, limits)).operator
    reply = await at.write(of, 0, QUOTA)
    assert (True, limits) == (reply.ours, reply.quota.operator)
    assert 30 == reply.quota.limits.requests_per_minute
    further = Limits(tokens_per_minute=7, requests_per_second=2)
    both = await at.set_limits(of, further)
    assert Limits(30, 7, None, 2) == read_quota(both).operator
    assert Limits() == read_quota(await at.set_limits(of, Limits())).operator
    assert QUOTA == await at.read(of)


async def test_workers_learn_new_limits_from_the_read_of_the_breakers(
    store: Store,
) -> None:
    of, seen = name(store), dict[str, Quota]()
    await quotas(store).set_limits(of, Limits(requests_per_minute=30))
    await Breakers(store.table, "w", store.clock, seen.__setitem__).read_all()
    assert Limits(requests_per_minute=30) == seen[of].limits


async def test_a_malformed_row_counts_as_new_and_a_newer_one_is_refused(
    store: Store,
) -> None:
    at, of = quotas(store), name(store)
    await store.put(keys.BREAKERS_PK, keys.limits_sk(of), seq=4, requests_next="soon")
    assert Quota(seq=4) == await at.read(of)
    with pytest.raises(SchemaTooNewError):
        read_quota({"v": 99})


async def test_a_pause_is_separate_from_reservations_and_ends_without_a_trace(
    store: Store,
) -> None:
    at, of = quotas(store), name(store)
    await at.write(of, 0, QUOTA)
    row = await at.pause(of, "price change")
    assert read_quota(row) == replace(QUOTA, paused="price change (by worker)")
    second = replace(QUOTA, seq=2)
    assert (await at.write(of, 1, second)).quota.paused == "price change (by worker)"
    assert read_quota(await at.resume(of)) == second


async def test_a_dependency_without_limits_is_paused_and_resumed(store: Store) -> None:
    at, of = quotas(store), name(store)
    await at.pause(of)
    assert (await at.read(of)).paused == "no reason (by worker)"
    await at.resume(of)
    assert await at.read(of) == Quota()
