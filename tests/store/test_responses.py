"""Shared responses in the table: read by all jobs of a tenant, never in the way."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from piecework.aws.objects import INLINE_LIMIT
from piecework.domain import keys
from piecework.domain.moments import iso
from piecework.store import journal
from piecework.store.journal import TableResponses
from tests.store.conftest import NOW, Store
from tests.unit.piecework.fakes import Log


def cache(store: Store, tenant: str = "", **facts: Any) -> TableResponses:
    table = replace(store.table, **facts)
    return TableResponses(table, tenant or store.ref.tenant, store.clock, Log())


async def test_a_response_is_read_until_its_time_is_over(store: Store) -> None:
    shared = cache(store)
    assert await shared.recall("key") is None
    await shared.keep("key", '"answer"', 3600)
    item = await store.item(keys.response_pk(store.ref.tenant, "key"), keys.RESPONSE_SK)
    assert item["value"] == '"answer"'
    assert item["valid_until"] == iso(NOW + 3600)
    assert item["expires_at"] == int(NOW) + 3600
    store.now = NOW + 3599
    assert await shared.recall("key") == '"answer"'
    store.now = NOW + 3600
    assert await shared.recall("key") is None


async def test_the_first_response_stays_until_its_time_is_over(store: Store) -> None:
    shared = cache(store)
    for value in ('"first"', '"second"'):
        await shared.keep("key", value, 3600)
    assert await shared.recall("key") == '"first"'
    store.now = NOW + 3600
    await shared.keep("key", '"third"', 3600)
    assert await shared.recall("key") == '"third"'


async def test_another_tenant_reads_nothing(store: Store) -> None:
    await cache(store).keep("key", '"answer"', 3600)
    assert await cache(store, "other").recall("key") is None


@pytest.mark.parametrize(
    ("size", "kept"), [(INLINE_LIMIT, True), (INLINE_LIMIT + 1, False)]
)
async def test_a_large_response_is_not_kept(
    store: Store, size: int, *, kept: bool
) -> None:
    shared = cache(store)
    await shared.keep("key", "x" * size, 3600)
    assert (await shared.recall("key") is not None) is kept


@pytest.mark.parametrize("name", ["value", "valid_until"])
@pytest.mark.parametrize("spoilt", [None, 9])
async def test_a_malformed_cached_answer_is_ignored(
    store: Store, name: str, spoilt: int | None
) -> None:
    shared = cache(store)
    await shared.keep("key", '"answer"', 3600)
    pk = keys.response_pk(store.ref.tenant, "key")
    await store.change(pk, keys.RESPONSE_SK, **{name: spoilt})
    assert await shared.recall("key") is None


async def test_a_table_that_is_away_fails_no_call(store: Store) -> None:
    shared = cache(store, name="absent")
    await shared.keep("key", '"answer"', 3600)
    assert await shared.recall("key") is None
    assert shared.log.names() == ["cache.failed"] * 2  # type: ignore[attr-defined]


async def test_a_table_that_is_slow_is_not_waited_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow:
        async def get_item(self, **_: Any) -> None:
            await asyncio.Event().wait()

        put_item = get_item

    monkeypatch.setattr(journal, "PATIENCE_S", 0.01)
    shared = cache(store, client=Slow())
    await shared.keep("key", '"answer"', 3600)
    assert await shared.recall("key") is None
