"""The gotchas of doing an operation once: each check passes ours and catches its own.

Each row of the table is a check, and ours pass all. A wrong client differs from a sound
one in one thing alone. The check of its row catches it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from piecework.errors import TransientError
from piecework.idempotency.stores import SWEEP_SIZE
from piecework.standalone import MemoryIdempotency
from tests.unit.piecework.gotchas.shop import (
    DAY,
    InPipeline,
    Open,
    Shop,
    Standalone,
)

Check = Callable[[Open], Awaitable[None]]


async def a_retry_sends_the_key_of_the_first_try(client: Open) -> None:
    """Timestamp in key; keys use stable identifiers, no timestamps, no retry counts."""
    shop = Shop(errors=[TimeoutError("it was done, but the answer is lost")])
    at_shop = client(shop)
    with suppress(TimeoutError):
        await at_shop.do("ann", "t1", "charge", amount=7)
    shop.now += 1.0
    await at_shop.do("ann", "t1", "charge", amount=7)

    assert (2, 1) == (len(shop.asked), len(shop.keys))


async def another_operation_is_made(client: Open) -> None:
    """Key too broad; keys include the operation's type."""
    shop = Shop()
    at_shop = client(shop)
    await at_shop.do("ann", "t1", "charge", amount=7)
    await at_shop.do("ann", "t1", "refund", amount=7)
    await at_shop.do("ann", "t1", "charge", amount=8)
    await at_shop.do("ann", "t2", "charge", amount=7)

    assert ["charge", "refund", "charge", "charge"] == [name for name, _ in shop.asked]
    assert 4 == len(shop.keys)


async def the_same_operation_is_made_once(client: Open) -> None:
    """Key too narrow; keys are deterministic: same input, same key."""
    shop = Shop()
    at_shop = client(shop)
    one = await at_shop.do("ann", "t1", "charge", amount=7, currency="EUR")
    shop.now += 60.0
    two = await at_shop.do("ann", "t1", "charge", currency="EUR", amount=7)

    assert one == two
    assert 1 == len(shop.asked)


async def what_is_remembered_is_forgotten_in_time(client: Open) -> None:
    """No TTL on cache."""
    shop = Shop()
    at_shop = client(shop)
    await at_shop.do("ann", "t1", "charge", amount=7)
    shop.now += DAY - 1
    await at_shop.do("ann", "t1", "charge", amount=7)
    within_a_day = len(shop.asked)
    shop.now += 2
    await at_shop.do("ann", "t1", "charge", amount=7)

    assert (1, 2) == (within_a_day, len(shop.asked))


async def a_failure_is_not_the_answer_for_ever(client: Open) -> None:
    """Cached failures."""
    shop = Shop(errors=[TransientError("not now", http_status=503)])
    at_shop = client(shop)
    with suppress(TransientError):
        await at_shop.do("ann", "t1", "charge", amount=7)

    answered = ""
    with suppress(TransientError):
        answered = await at_shop.do("ann", "t1", "charge", amount=7)

    assert answered.startswith("charge")


async def each_user_has_an_answer_of_their_own(client: Open) -> None:
    """Key collision across users."""
    shop = Shop()
    at_shop = client(shop)
    anns = await at_shop.do("ann", "t1", "charge", amount=7)
    bobs = await at_shop.do("bob", "t1", "charge", amount=7)

    assert anns != bobs
    assert 2 == len(shop.keys)


KEYS: list[Check] = [
    a_retry_sends_the_key_of_the_first_try,
    another_operation_is_made,
    the_same_operation_is_made_once,
    a_failure_is_not_the_answer_for_ever,
    each_user_has_an_answer_of_their_own,
]


@pytest.mark.parametrize("check", KEYS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("client", [Standalone, InPipeline])
async def test_a_sound_client_passes(check: Check, client: Open) -> None:
    await check(client)


async def test_what_ours_remember_is_forgotten_in_time() -> None:
    await what_is_remembered_is_forgotten_in_time(Standalone)


async def test_a_store_does_not_grow_with_the_operations_it_has_seen() -> None:
    shop = Shop()
    client = Standalone(shop)
    for number in range(3 * SWEEP_SIZE):
        await client.do("ann", f"t{number}", "charge", amount=7)
        shop.now += DAY / 100

    assert isinstance(client.store, MemoryIdempotency)
    assert len(client.store._records) <= 2 * SWEEP_SIZE
    shop.now += 1_000 * DAY
    client.store._sweep_at = 0
    client.store._sweep(shop.now)
    assert not client.store._records
