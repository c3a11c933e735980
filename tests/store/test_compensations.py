"""A failed compensation is resolved once, and only as the operator has read it."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.moments import iso
from piecework.domain.outcome import CompensationResult
from piecework.domain.states import JobStatus
from piecework.store.checkpoints import read_work
from piecework.store.compensations import (
    FailedCompensation,
    HandResolution,
    resolve_by_hand,
    stages_left,
)
from piecework.store.dead_letters import Closing
from piecework.store.reopen import Reopening, reopen_chunk
from tests.store.conftest import Store
from tests.store.writes import begin, begin_compensation, dead_letter
from tests.store.writes import record_compensation as compensate_first


async def die(store: Store, *, undone: bool = False) -> DeadLetterRow:
    """Let a chunk die of which the first stage was not compensated."""
    claim = await store.running(gen=2)
    await begin(store, claim)
    await begin_compensation(store, claim)
    if undone:
        await compensate_first(store, claim)
    await dead_letter(store, claim)
    await store.change(compensation="FAILED")
    sk, table = keys.dead_letter_sk(3, 2), store.dead_letter_table
    item = dict(await table.get(store.ref.pk, sk) or {}) | {"compensation": "FAILED"}
    item = {n: v for n, v in item.items() if n not in {"pk", "sk"}}
    await store.put(store.ref.pk, sk, table.name, **item)
    letter = await store.dead_letters.read(store.chunk, 2)
    assert letter is not None
    return letter


async def resolve(
    store: Store,
    letter: DeadLetterRow,
    result: CompensationResult = CompensationResult.COMPENSATED,
) -> bool:
    work = await read_work(store.table, store.chunk)
    statement = HandResolution(
        result, tuple(stages_left(letter, work)), Closing("me", "why"), iso(store.now)
    )
    return await resolve_by_hand(
        store.table, store.dead_letter_table, letter, work, statement
    )


@pytest.mark.parametrize(
    ("result", "state"),
    [
        (CompensationResult.COMPENSATED, "COMPENSATED"),
        (CompensationResult.NOT_NEEDED, "INTENT"),
    ],
)
async def test_a_resolution_changes_chunk_letter_stage_and_effects_together(
    store: Store, result: CompensationResult, state: str
) -> None:
    letter = await die(store)
    assert await resolve(store, letter, result) is True
    assert await resolve(store, letter, result) is False
    after = await store.dead_letters.read(store.chunk, 2)
    assert after is not None
    work = await read_work(store.table, store.chunk)
    assert (after.state, after.compensation) == ("OPEN", result)
    assert (await store.item())["compensation"] == result
    assert [row.has_failed for row in work.compensated_in(2)] == [False]
    assert [row.state for row in work.effects] == [state]


async def test_a_resolution_may_have_more_effects_than_one_transaction(
    store: Store,
) -> None:
    letter = await die(store)
    for number in range(97):
        sk = keys.effect_sk(3, str(number))
        await store.put(
            store.chunk.pk, sk, effect_key=str(number), stage="first", state="DONE"
        )
    assert await resolve(store, letter) is True


@pytest.mark.parametrize(
    "moved",
    [{"status": "PENDING"}, {"gen": 3}, {"compensation": "COMPENSATED"}],
    ids=str,
)
async def test_a_chunk_that_changed_is_not_settled(
    store: Store, moved: dict[str, Any]
) -> None:
    letter = await die(store)
    await store.change(**moved)
    assert (False, {}) == await store.does(resolve(store, letter))


@pytest.mark.parametrize(
    "moved", [{"state": "REDRIVEN"}, {"compensation": "NOT_NEEDED"}], ids=str
)
async def test_a_letter_that_changed_is_not_settled(
    store: Store, moved: dict[str, Any]
) -> None:
    letter = await die(store)
    sk, name = keys.dead_letter_sk(3, 2), store.dead_letter_table.name
    item = {n: v for n, v in letter.item.items() if n not in {"pk", "sk"}}
    await store.put(store.ref.pk, sk, name, **item | moved)
    assert (False, {}) == await store.does(resolve(store, letter))


async def test_a_chunk_compensates_again_at_its_cursor_with_the_keys_of_its_calls(
    store: Store,
) -> None:
    await die(store, undone=True)
    await store.change(stage="second", resume_at="first")
    for last, gen in ((2, 3), (3, 4)):
        await store.put_job(JobStatus.REOPENING, gen=gen)
        chunk = Chunk.read(store.chunk, await store.item())
        again = FailedCompensation.read(await read_work(store.table, store.chunk), last)
        assert again is not None
        how = Reopening(compensation=again)
        assert await reopen_chunk(store.table, chunk, gen, how) is True
        item, work = await store.item(), await read_work(store.table, store.chunk)
        assert (item["stage"], item["direction"]) == ("second", "compensating")
        assert [row.stage for row in work.compensated_in(gen)] == ["first"]
        next_ = FailedCompensation.read(work, gen)
        assert next_ is not None
        assert (next_.calls_gen, next_.cause) == (2, again.cause)
        await store.change(status="DEAD")
