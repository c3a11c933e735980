"""What holds for every conditional write: see `table.Case`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.store import (
    test_children,
    test_chunks,
    test_deadlines,
    test_job_transitions,
    test_notifications,
    test_ownership,
    test_pushes,
)
from tests.store.conftest import Store, Stutter
from tests.store.table import Case

NOUNS = (
    test_children,
    test_chunks,
    test_deadlines,
    test_job_transitions,
    test_notifications,
    test_ownership,
    test_pushes,
)
CASES: dict[str, Case] = {case.name: case for noun in NOUNS for case in noun.CASES}


def named(cases: list[str]) -> Any:
    return pytest.mark.parametrize("name", cases)


async def is_refused(store: Store, case: Case, read: Any) -> None:
    with store.unchanged():
        if isinstance(case.refused, type):
            with pytest.raises(case.refused):
                await case.act(store, read)
        else:
            assert case.refused == await case.act(store, read)


async def is_made(store: Store, case: Case, read: Any) -> None:
    assert case.refused != await case.act(store, read)
    row = await store.item(*case.key(store))
    assert dict(case.left) == {name: row.get(name) for name in case.left}


@named(list(CASES))
async def test_a_write_finds_what_was_read_and_leaves_what_it_must(
    store: Store, name: str
) -> None:
    case = CASES[name]
    await is_made(store, case, await case.before(store))


@pytest.mark.parametrize(
    ("name", "moved"),
    [(name, moved) for name, case in CASES.items() for moved in case.moved],
    ids=lambda part: (
        part if isinstance(part, str) else "-".join(map(str, part.values()))
    ),
)
async def test_a_row_that_moved_since_is_left_alone(
    store: Store, name: str, moved: dict[str, Any]
) -> None:
    case = CASES[name]
    read = await case.before(store)
    await store.change(*case.key(store), **moved)
    await is_refused(store, case, read)


@named(list(CASES))
async def test_a_row_that_is_gone_is_not_made(store: Store, name: str) -> None:
    case = CASES[name]
    read = await case.before(store)
    await store.drop(*case.key(store))
    await is_refused(store, case, read)


@named([name for name, case in CASES.items() if case.requests])
async def test_a_write_whose_answer_was_lost_was_made(store: Store, name: str) -> None:
    case = CASES[name]
    read = await case.before(store)
    store.client = Stutter(store.client)
    await is_made(store, case, read)
    assert case.requests == store.client.sent


@named([name for name, case in CASES.items() if case.is_once])
async def test_of_many_processes_one_writes(store: Store, name: str) -> None:
    case = CASES[name]
    read = await case.before(store)
    done = await asyncio.gather(*(case.act(store, read) for _ in range(8)))
    assert sum(done) == 1
