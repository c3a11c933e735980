"""Each clause of the writes of a budget, and what a row means."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from piecework.domain.budget import Amount, Cap
from piecework.errors import SchemaTooNewError
from piecework.resilience.budget import Budget, Reply, Slice, key_of_job, key_of_tenant
from piecework.store.breakers import Breakers
from piecework.store.budgets import Budgets, read_budget
from tests.store.conftest import Store, Stutter

SLICES = {"w1": Slice(Amount(7, 9), 100, 3)}
BUDGET = Budget(seq=1, spent=Amount(5, 6), slices=SLICES, recounts=2)


def budgets(store: Store, client: Any = None) -> Budgets:
    """Return the budgets of the deployment."""
    table = store.table if client is None else replace(store.table, client=client)
    return Budgets(table, store.clock, store.rng)


async def test_a_worker_that_has_read_an_earlier_budget_is_refused(
    store: Store,
) -> None:
    at, key = budgets(store), key_of_job(store.ref)
    assert await at.read(key) == Budget()
    assert await at.write(key, 0, BUDGET) == Reply(BUDGET, ours=True)
    late = await at.write(key, 0, replace(BUDGET, spent=Amount(1)))
    assert late == Reply(BUDGET, ours=False)
    assert await at.read(key) == BUDGET


async def test_a_write_that_is_sent_twice_is_ours(store: Store) -> None:
    client, key = Stutter(store.client), key_of_job(store.ref)
    reply = await budgets(store, client).write(key, 0, BUDGET)
    assert (Reply(BUDGET, ours=True), 1) == (reply, client.sent)


async def test_the_cap_of_an_operator_stays_and_refuses_a_worker_that_has_not_read_it(
    store: Store,
) -> None:
    at, key = budgets(store), key_of_job(store.ref)
    assert (await at.set_cap(key, Cap(None, 30), "me")).operator == Cap(None, 30)
    assert not (await at.write(key, 0, BUDGET)).ours
    second = replace(BUDGET, seq=2)
    assert (await at.write(key, 1, second)).budget.operator == Cap(None, 30)
    both = await at.set_cap(key, Cap(8), "me")
    assert both == replace(second, seq=3, operator=Cap(8, 30))
    assert await at.set_cap(key, Cap(), "me") == replace(second, seq=4)


async def test_workers_learn_a_daily_budget_from_the_read_of_the_breakers(
    store: Store,
) -> None:
    at, tenant, seen = budgets(store), store.ref.tenant, dict[str, Cap]()
    await at.set_cap(key_of_tenant(tenant), Cap(None, 30), "me")
    read = Breakers(store.table, "w", store.clock, budget_read=seen.__setitem__)
    assert f"BUDGET#{tenant}" not in await read.read_all()
    assert seen[tenant] == Cap(None, 30)
    assert tenant in [name async for name, _ in at.tenants()]
    await at.set_cap(key_of_tenant(tenant), Cap(), "me")
    assert tenant not in [name async for name, _ in at.tenants()]


async def test_a_malformed_row_keeps_its_number_and_a_newer_one_is_refused(
    store: Store,
) -> None:
    key = key_of_job(store.ref)
    await store.put(key.pk, key.sk, seq=4, spent_tokens="much")
    assert await budgets(store).read(key) == Budget(seq=4)
    await store.put(key.pk, key.sk, seq=4, v=99)
    with pytest.raises(SchemaTooNewError):
        await budgets(store).set_cap(key, Cap(1), "me")
    with pytest.raises(SchemaTooNewError):
        read_budget({"v": 99})
