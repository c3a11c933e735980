"""The states of an effect, and who may move it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from piecework.domain import keys
from piecework.domain.effect import Effect
from piecework.domain.protocols import ClaimLostError
from piecework.domain.rows import EffectRow
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.errors import StoreError
from piecework.store.effect_resolutions import (
    Resolution,
    correct_effect,
    resolve_effect,
)
from tests.store.conftest import Store
from tests.store.writes import rows

EFFECT_STATES = ["INTENT", "UNKNOWN", "REFUSED", "DONE", "COMPENSATED", None]
MAY: dict[str, set[Any]] = {
    "begin": {None, "COMPENSATED", "REFUSED"},
    "finish": {"INTENT", "UNKNOWN", "REFUSED"},
    "mark_refused": {"INTENT", "UNKNOWN"},
    "mark_unknown": {"INTENT", "UNKNOWN"},
}
GIVEN = {"finish": ["key", '"x"'], "mark_unknown": ["key", '{"type": "string"}']}
BECOMES = {
    "begin": "INTENT",
    "finish": "DONE",
    "mark_refused": "REFUSED",
    "mark_unknown": "UNKNOWN",
}


@pytest.mark.parametrize("verb", list(MAY))
@pytest.mark.parametrize("state", EFFECT_STATES)
async def test_an_effect_moves_only_along_its_states(
    store: Store, verb: str, state: str | None
) -> None:
    claim = await store.running()
    ledger = store.ledger(claim)
    sk = keys.effect_sk(3, "key")
    if state is not None:
        row = {"state": state, "stage": "first", "gen": 2}
        await store.put(store.chunk.pk, sk, **row)
    store.changes.clear()
    if verb == "begin":
        moved = ledger.begin("key", "first", Effect.NON_IDEMPOTENT, 9.0)
        if state not in MAY[verb]:
            with pytest.raises(ClaimLostError):
                await moved
        else:
            await moved
    else:
        row = {"state": state, "stage": "first", "gen": 2}
        ledger.load([EffectRow({"effect_key": "key", **row})])
        await getattr(ledger, verb)(*GIVEN.get(verb, ["key"]))
    assert bool(store.changed()) is (state in MAY[verb])
    if state in MAY[verb]:
        assert store.changed()[sk].get("state", state) == BECOMES[verb]


@pytest.mark.parametrize(
    "changed",
    [{"status": "PENDING"}, {"gen": 9}, {"fence": 5}, {"claim_token": "theirs"}],
)
async def test_a_refusal_is_not_recorded_after_the_claim_was_lost(
    store: Store, changed: dict[str, Any]
) -> None:
    claim = await store.running()
    ledger = store.ledger(claim)
    await ledger.begin("key", "first", Effect.LOOKUP, 9.0)
    await store.change(**changed)
    await ledger.mark_refused("key")
    assert (await rows(store))["EFFECT#key"]["state"] == "INTENT"


async def test_the_end_of_an_effect_is_recorded_after_the_claim_was_lost(
    store: Store,
) -> None:
    claim = await store.running()
    ledger = store.ledger(claim)
    await ledger.begin("key", "first", Effect.LOOKUP, 9.0)
    await store.change(fence=5, claim_token="theirs")
    await ledger.finish("key", '"answer"')
    row = (await rows(store))["EFFECT#key"]
    assert (row["state"], row["value"]) == ("DONE", '"answer"')


@pytest.mark.parametrize("verb", ["finish", "mark_unknown", "mark_refused"])
async def test_the_end_of_an_effect_changes_no_later_generation(
    store: Store, verb: str
) -> None:
    claim = await store.running()
    ledger = store.ledger(claim)
    await ledger.begin("key", "first", Effect.LOOKUP, 9.0)
    sk = keys.effect_sk(3, "key")
    await store.change(store.chunk.pk, sk, gen=3)
    with store.unchanged():
        await getattr(ledger, verb)(*GIVEN.get(verb, ["key"]))


@pytest.mark.parametrize("state", EFFECT_STATES)
@pytest.mark.parametrize(
    ("verb", "states"),
    [("mark_counted", {"DONE"}), ("finish_rest", {"INTENT", "UNKNOWN"})],
)
async def test_a_row_says_which_claim_has_counted_its_call(
    store: Store, verb: str, states: set[str], state: str | None
) -> None:
    claim, sk = await store.running(), keys.effect_sk(3, "key")
    if state is not None:
        await store.put(store.chunk.pk, sk, state=state, stage="first", gen=2)

    async def count(fence: int, gen: int = 2) -> None:
        ledger = store.ledger(replace(claim, fence=fence))
        away = AsyncMock(side_effect=StoreError("away"))
        ledger.objects = cast("Any", SimpleNamespace(put_value=away))
        row = {"effect_key": "key", "stage": "first", "state": state, "gen": gen}
        ledger.load([EffectRow(row)])
        ledger.usage.effects["key"].add("paid", "bank", [1])
        if verb == "mark_counted":
            await ledger.mark_counted("key")
        else:
            ledger.hold("key", '"x"')
            await ledger.finish_rest(patient=False)

    _, changed = await store.does(count(fence=8))
    assert bool(changed) is (state in states)
    if not changed:
        return
    row = await store.item(store.chunk.pk, sk)
    assert (row["state"], row["paid_fence"]) == (state, 8)
    with store.unchanged():
        await count(fence=9, gen=3)  # another claim, or one of a later generation


@pytest.mark.parametrize("state", EFFECT_STATES)
async def test_an_effect_may_have_happened_unless_it_was_refused(
    store: Store, state: str | None
) -> None:
    ledger = store.ledger(await store.running())
    if state is not None:
        ledger.load(
            [EffectRow({"effect_key": "key", "stage": "first", "state": state})]
        )
    assert (state in {"INTENT", "UNKNOWN", "DONE"}) is ledger.may_have_happened("key")
    assert (
        {"first"} if ledger.may_have_happened("key") else set()
    ) == ledger.stages_with_effects()


SEEN = Resolution("me", "seen there", "2026-11-22T00:00:00.000Z", {"value": '"x"'})
IN_DOUBT = EffectRow({"effect_key": "key", "stage": "first", "state": "UNKNOWN"})
NOT_SEEN = Resolution("me", "not there", "2026-11-22T00:00:00.000Z", None)


@pytest.mark.parametrize("finding", [SEEN, NOT_SEEN])
@pytest.mark.parametrize("state", EFFECT_STATES)
async def test_an_operator_resolves_only_what_is_in_doubt(
    store: Store, state: str | None, finding: Resolution
) -> None:
    chunk = await store.put_chunk(status="DEAD")
    sk = keys.effect_sk(3, "key")
    if state is not None:
        await store.put(store.chunk.pk, sk, state=state, stage="first")
    act = resolve_effect(store.table, chunk, IN_DOUBT, finding)
    done, changed = await store.does(act)
    assert (state in {"INTENT", "UNKNOWN"}) is done
    assert bool(changed) is done
    if done:
        row = changed[sk]
        assert ("DONE" if finding.answer else "REFUSED") == row["state"]
        assert ("me", finding.reason) == (row["resolved_by"], row["resolve_reason"])


@pytest.mark.parametrize("status", list(ChunkStatus))
@pytest.mark.parametrize("moved", [{}, {"gen": 9}, {"status": "CANCELLED"}])
async def test_an_operator_resolves_nothing_of_a_chunk_that_may_go_on(
    store: Store, status: ChunkStatus, moved: dict[str, Any]
) -> None:
    chunk = await store.put_chunk(status=status)
    sk = keys.effect_sk(3, "key")
    await store.put(store.chunk.pk, sk, state="UNKNOWN", stage="first")
    await store.change(**moved) if moved else None
    as_seen = not moved or {"status": str(status)} == moved
    ended = {ChunkStatus.DEAD, ChunkStatus.CANCELLED, ChunkStatus.SUCCEEDED}
    may = as_seen and status in ended
    assert may is await resolve_effect(store.table, chunk, IN_DOUBT, NOT_SEEN)


@pytest.mark.parametrize(
    ("of_chunk", "of_job", "moved", "left"),
    [
        (2, 5, {}, (1, 4)),
        (2, 0, {}, (1, None)),
        (0, 5, {}, (None, 5)),
        (1, 1, {}, (0, 0)),
        (2, 5, {"gen": 9}, (2, 5)),
    ],
)
async def test_a_resolution_counts_one_effect_in_doubt_less(
    store: Store,
    of_chunk: int,
    of_job: int,
    moved: dict[str, Any],
    left: tuple[int | None, int | None],
) -> None:
    counted = {"effects_in_doubt": of_chunk} if of_chunk else {}
    chunk = await store.put_chunk(status="SUCCEEDED", **counted)
    own = {"effects_in_doubt": of_job} if of_job else {}
    job = await store.put_job(JobStatus.SUCCEEDED, **own)
    await store.put(store.chunk.pk, keys.effect_sk(3, "key"), state="UNKNOWN", gen=2)
    await store.change(**moved) if moved else None

    done = await resolve_effect(store.table, chunk, IN_DOUBT, NOT_SEEN, job)

    assert bool(moved) is not done
    rows = await store.item(), await store.item(store.ref.pk, keys.META_SK)
    assert left == tuple(row.get("effects_in_doubt") for row in rows)


@pytest.mark.parametrize(
    ("row", "chunk", "corrected"),
    [
        ({}, {}, True),
        ({"state": "REFUSED"}, {"status": "CANCELLED"}, True),
        ({"state": "COMPENSATED"}, {}, False),
        ({"state": "INTENT"}, {}, False),
        # Another operator corrected it, or its worker reported the end.
        ({"resolved_at": "later", "ended_at": "later"}, {}, False),
        ({"ended_at": "later"}, {}, False),
        ({"resolved_at": "later"}, {}, False),
        ({}, {"status": "RUNNING"}, False),
        ({}, {"gen": 9}, False),
        ({}, {"stage": "second"}, False),
        ({}, {"read": "RUNNING"}, False),
        ({}, {"read": "CANCELLED", "status": "DEAD"}, False),
    ],
)
@pytest.mark.parametrize("finding", [SEEN, NOT_SEEN])
async def test_an_operator_corrects_only_while_the_chunk_is_at_the_stage(
    store: Store,
    row: dict[str, Any],
    chunk: dict[str, Any],
    corrected: bool,  # noqa: FBT001 -- a case of the table
    finding: Resolution,
) -> None:
    status = "CANCELLED" if chunk.get("status") == "CANCELLED" else "DEAD"
    status, chunk = chunk.get("read", status), {**chunk}
    chunk.pop("read", None)
    read = await store.put_chunk(status=status, stage="first")
    sk = keys.effect_sk(3, "key")
    resolved = {"state": "DONE", "resolved_at": "then", "ended_at": "then"}
    kept = {"effect_key": "key", "stage": "first", "value_at": "k", **resolved}
    await store.put(store.chunk.pk, sk, **{**kept, **row})
    await store.change(**chunk) if chunk else None
    act = correct_effect(store.table, read, EffectRow(kept), finding)
    done, changed = await store.does(act)
    assert corrected is done
    assert bool(changed) is done
    if not done:
        return
    now = await store.item(store.chunk.pk, sk)
    assert ("DONE" if finding.answer else "REFUSED") == now["state"]
    assert finding.at == now["resolved_at"] == now["ended_at"]
    answer = {name: now[name] for name in ("value", "value_at") if name in now}
    assert (finding.answer or {}) == answer
