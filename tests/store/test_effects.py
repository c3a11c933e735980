"""The states of an effect, and who may move it."""

from __future__ import annotations

from typing import Any

import pytest

from piecework import keys
from piecework.dependency import Effect
from piecework.ports import ClaimLostError
from tests.store.conftest import Store
from tests.store.writes import (
    rows,
)

EFFECT_STATES = ["INTENT", "UNKNOWN", "REFUSED", "DONE", "UNDONE", None]
MAY: dict[str, set[Any]] = {
    "begin": {None, "UNDONE", "REFUSED"},
    "finish": {"INTENT", "UNKNOWN", "REFUSED"},
    "refuse": {"INTENT", "UNKNOWN"},
    "doubt": {"INTENT", "UNKNOWN"},
}
BECOMES = {"begin": "INTENT", "finish": "DONE", "refuse": "REFUSED", "doubt": "UNKNOWN"}


@pytest.mark.parametrize("verb", list(MAY))
@pytest.mark.parametrize("state", EFFECT_STATES)
async def test_an_effect_moves_only_along_its_states(
    store: Store, verb: str, state: str | None
) -> None:
    claim = await store.running()
    ledger = store.ledger(claim)
    sk = keys.effect_sk(3, "key")
    if state is not None:
        await store.put(store.chunk.pk, sk, effect_state=state, stage="first")
    before = await store.everything()
    if verb == "begin":
        moved = ledger.begin("key", "first", Effect.NON_IDEMPOTENT, 9.0)
        if state not in MAY[verb]:
            with pytest.raises(ClaimLostError):
                await moved
        else:
            await moved
    else:
        ledger.load([{"effect_key": "key", "stage": "first", "effect_state": state}])
        await getattr(ledger, verb)(*(["key", '"x"'] if verb == "finish" else ["key"]))
    if state in MAY[verb]:
        assert (await store.item(store.chunk.pk, sk))["effect_state"] == BECOMES[verb]
    else:
        assert before == await store.everything()


async def test_a_refusal_is_not_told_after_the_claim_was_lost(store: Store) -> None:
    claim = await store.running()
    ledger = store.ledger(claim)
    await ledger.begin("key", "first", Effect.LOOKUP, 9.0)
    await store.change(fence=5, claim_token="theirs")
    await ledger.refuse("key")
    assert (await rows(store))["EFFECT#key"]["effect_state"] == "INTENT"


async def test_what_an_effect_came_to_is_told_even_after_the_claim_was_lost(
    store: Store,
) -> None:
    claim = await store.running()
    ledger = store.ledger(claim)
    await ledger.begin("key", "first", Effect.LOOKUP, 9.0)
    await store.change(fence=5, claim_token="theirs")
    await ledger.finish("key", '"answer"')
    row = (await rows(store))["EFFECT#key"]
    assert (row["effect_state"], row["value"]) == ("DONE", '"answer"')


@pytest.mark.parametrize("state", EFFECT_STATES)
async def test_an_effect_stands_unless_it_is_known_not_to(
    store: Store, state: str | None
) -> None:
    ledger = store.ledger(await store.running())
    if state is not None:
        ledger.load([{"effect_key": "key", "stage": "first", "effect_state": state}])
    assert (state in {"INTENT", "UNKNOWN", "DONE"}) is ledger.stands("key")
    assert ({"first"} if ledger.stands("key") else set()) == ledger.standing()
