"""Past its pivot a chunk goes on whatever is asked, as long as it is still ours."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from piecework.domain.claim import Claim
from piecework.domain.effect import Effect
from piecework.domain.protocols import (
    CancelRequest,
    CancelRequestedError,
    ClaimLostError,
)
from piecework.pipelines import Stage
from piecework.store.checkpoints import ChunkCheckpoints
from tests.store.conftest import Store
from tests.store.pipelines import PIPELINE, first, second, third
from tests.store.test_claims import NOT_OURS

PIVOTED = replace(
    PIPELINE, stages=[Stage(first), Stage(second, pivot=True), Stage(third)]
)


def checkpoints(store: Store, claim: Claim) -> ChunkCheckpoints:
    kept = store.checkpoints(claim)
    kept.pipeline = PIVOTED
    return kept


async def test_a_cancel_stops_a_chunk_before_its_pivot(store: Store) -> None:
    claim = await store.running(cancel_requested_at=True)
    with pytest.raises(CancelRequestedError):
        await checkpoints(store, claim).complete(0, '"value"', "second")


@pytest.mark.parametrize("value", ["null", '"value"'])
async def test_a_cancel_does_not_stop_a_chunk_past_its_pivot(
    store: Store, value: str
) -> None:
    claim = await store.running(stage="second", cancel_requested_at=True)
    await checkpoints(store, claim).complete(1, value, "third")
    assert (await store.item())["stage"] == "third"


@pytest.mark.parametrize("value", ["null", '"value"'])
@pytest.mark.parametrize("word", list(NOT_OURS))
async def test_a_worker_that_lost_the_claim_past_the_pivot_writes_nothing(
    store: Store, word: str, value: str
) -> None:
    claim = await store.running(stage="second")
    await store.change(**NOT_OURS[word])
    with store.unchanged(), pytest.raises(ClaimLostError):
        await checkpoints(store, claim).complete(1, value, "third")


@pytest.mark.parametrize(
    "moved", [{"stage": "first"}, {"stage": "third"}, {"started_at": "later"}]
)
async def test_a_step_past_the_pivot_leaves_the_stage_that_it_names_and_no_other(
    store: Store, moved: dict[str, str]
) -> None:
    claim = await store.running(stage="second")
    await store.change(**moved)
    # At "third" the step has been taken already.
    with store.unchanged(), suppress(ClaimLostError):
        await checkpoints(store, claim).complete(1, '"value"', "third")


@pytest.mark.parametrize("asked", ["chunk", "lease"])
async def test_a_cancel_stops_the_first_intent_of_a_pivot(
    store: Store, asked: str
) -> None:
    claim = await store.running(stage="second")
    ledger = store.ledger(claim)
    ledger.pivot = "second"
    if asked == "chunk":
        await store.change(cancel_requested_at="2026-01-01T00:00:00.000Z")
    else:
        ledger.cancel_of_lease = lambda: CancelRequest("now", compensate=True)
    with store.unchanged(), pytest.raises(CancelRequestedError):
        await ledger.begin("a key", "second", Effect.LOOKUP, 1.0)
    assert ledger.pivot_is_untouched


async def test_a_cancel_does_not_stop_the_second_intent_of_a_pivot(
    store: Store,
) -> None:
    claim = await store.running(stage="second")
    ledger = store.ledger(claim)
    ledger.pivot = "second"
    await ledger.begin("a key", "second", Effect.LOOKUP, 1.0)
    await store.change(cancel_requested_at="2026-01-01T00:00:00.000Z")
    ledger.cancel_of_lease = lambda: CancelRequest("now", compensate=True)
    await ledger.begin("another key", "second", Effect.LOOKUP, 1.0)
    assert not ledger.pivot_is_untouched


async def test_a_worker_that_lost_the_claim_writes_no_intent_of_the_pivot(
    store: Store,
) -> None:
    ledger = store.ledger(await store.running(stage="second"))
    ledger.pivot = "second"
    await store.change(claim_token="another", cancel_requested_at="2026-01-01")
    with pytest.raises(ClaimLostError):
        await ledger.begin("a key", "second", Effect.LOOKUP, 1.0)
