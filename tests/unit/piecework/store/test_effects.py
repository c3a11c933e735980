from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from piecework.aws.objects import INLINE_LIMIT
from piecework.domain.effect import Effect
from piecework.domain.happened import EffectEnd, KnownEffect
from piecework.domain.moments import iso
from piecework.domain.protocols import (
    AlreadyDone,
    Called,
    ClaimLostError,
    Proceed,
    Unknown,
)
from piecework.domain.rows import EffectRow
from piecework.errors import StoreError
from piecework.store.effects import EffectLedger
from piecework.store.table import Refused, Written
from tests.unit.piecework.store.tables import NOW, Paper, claim, objects, paper
from tests.unit.virtual import run_virtually

KEYED, ONCE, LOOKUP = Effect.PROVIDER_IDEMPOTENT, Effect.NON_IDEMPOTENT, Effect.LOOKUP


def ledger(table: Paper, **facts: Any) -> EffectLedger:
    return EffectLedger(table, objects(), claim(**facts), lambda: NOW)


def row(state: str, **facts: Any) -> dict[str, Any]:
    return {
        "effect_key": "key",
        "state": state,
        "gen": 1,
        "stage": "a",
        "started_at": iso(NOW - 90),
        **facts,
    }


def states(table: Paper) -> list[Any]:
    return [actions[-1].values.get("state") for actions in table.written]


async def test_an_intent_is_written_under_the_claim() -> None:
    table = paper()
    kept = ledger(table, gen=2, fence=5)
    assert await kept.begin("key", "reserve", KEYED, 9.0) == Proceed(2)
    check, put = table.written[0]
    assert check.kind == "ConditionCheck"
    assert "fence = :fence" in check.condition
    assert check.values["fence"] == 5
    assert put.sk == "WORK#00000003#EFFECT#key"
    assert table.items() == [
        {
            "effect_key": "key",
            "state": "INTENT",
            "effect": "provider_idempotent",
            "stage": "reserve",
            "gen": 2,
            "started_at": "2023-11-14T22:13:20.000Z",
            "fence": 5,
            "max_duration_s": 9,
            "expires_at": None,  # that of its chunk; no attribute in the table
        }
    ]


async def test_an_intent_that_is_refused_means_that_the_claim_was_lost() -> None:
    kept = ledger(paper(Refused(None, {0: None})))
    with pytest.raises(ClaimLostError):
        await kept.begin("key", "reserve", KEYED, 9.0)
    assert kept._rows == {}


async def test_what_was_done_is_answered_from_its_row() -> None:
    table = paper()
    kept = ledger(table)
    kept.load([EffectRow(row("DONE", value='"answer"'))])
    assert await kept.begin("key", "a", ONCE, 9.0) == AlreadyDone('"answer"')
    assert table.written == []


@pytest.mark.parametrize("effect", [KEYED, LOOKUP])
@pytest.mark.parametrize("state", ["INTENT", "UNKNOWN"])
async def test_an_effect_in_doubt_is_begun_again_in_its_own_epoch(
    effect: Effect, state: str
) -> None:
    table = paper()
    kept = ledger(table, gen=3)
    kept.load([EffectRow(row(state))])
    assert await kept.begin("key", "a", effect, 9.0) == Proceed(1, seconds=90)
    assert table.written == []


@pytest.mark.parametrize("state", ["INTENT", "UNKNOWN"])
async def test_what_can_be_neither_repeated_nor_looked_up_is_unknown(
    state: str,
) -> None:
    table = paper()
    kept = ledger(table)
    kept.load([EffectRow(row(state))])
    assert await kept.begin("key", "a", ONCE, 9.0) == Unknown()


@pytest.mark.parametrize("state", ["COMPENSATED", "REFUSED"])
async def test_an_effect_that_did_not_happen_starts_again_in_this_generation(
    state: str,
) -> None:
    table = paper()
    kept = ledger(table, gen=3)
    kept.load([EffectRow(row(state))])
    assert await kept.begin("key", "a", ONCE, 9.0) == Proceed(3)
    assert table.items()[0]["gen"] == 3


async def test_an_answer_is_known_to_the_same_claim_too() -> None:
    table = paper()
    kept = ledger(table)
    await kept.begin("key", "a", ONCE, 9.0)
    await kept.finish("key", '"answer"')
    assert states(table)[-1] == "DONE"
    assert await kept.begin("key", "a", ONCE, 9.0) == AlreadyDone('"answer"')


async def test_a_large_answer_goes_to_the_bucket_and_comes_back() -> None:
    kept = ledger(paper())
    answer = "x" * (INLINE_LIMIT + 1)
    await kept.begin("key", "a", KEYED, 9.0)
    await kept.finish("key", answer)
    assert await kept.begin("key", "a", KEYED, 9.0) == AlreadyDone(answer)


async def test_a_late_large_answer_does_not_replace_another() -> None:
    theirs, ours = ledger(paper(), fence=2), ledger(paper(), fence=1)
    ours.objects = theirs.objects
    large = "x" * (INLINE_LIMIT + 1)
    for kept, value in ((theirs, large), (ours, "y" * (INLINE_LIMIT + 1))):
        await kept.begin("key", "a", KEYED, 9.0)
        await kept.finish("key", value)
    assert await theirs.begin("key", "a", KEYED, 9.0) == AlreadyDone(large)


async def test_a_refusal_of_a_lost_claim_leaves_the_intent() -> None:
    kept = ledger(paper(Written({}), Refused(None, {0: None})), fence=5)
    await kept.begin("key", "a", LOOKUP, 9.0)
    await kept.mark_refused("key")
    assert await kept.begin("key", "a", LOOKUP, 9.0) == Proceed(1)


async def test_a_refusal_lets_it_begin_again() -> None:
    table = paper()
    kept = ledger(table)
    await kept.begin("key", "a", ONCE, 9.0)
    await kept.mark_refused("key")
    assert states(table)[-1] == "REFUSED"
    assert await kept.begin("key", "a", ONCE, 9.0) == Proceed(1)


AWAY = StoreError("away", code="aws.service.unavailable")


def test_the_known_end_of_an_effect_outlasts_an_outage() -> None:
    async def main() -> None:
        kept = ledger(paper(Written({}), AWAY, AWAY))
        await kept.begin("key", "a", ONCE, 9.0)
        await kept.finish("key", "1")
        assert await kept.begin("key", "a", ONCE, 9.0) == AlreadyDone("1")
        # The lost answer said that the first write was applied.
        kept = ledger(paper(Written({}), AWAY, Refused(None, {1: row("REFUSED")})))
        await kept.begin("key", "a", ONCE, 9.0)
        await kept.mark_refused("key")
        assert await kept.begin("key", "a", ONCE, 9.0) == Proceed(1)
        kept = ledger(paper(Written({}), *[AWAY] * 7))
        await kept.begin("key", "a", ONCE, 9.0)
        with pytest.raises(StoreError):
            await kept.finish("key", "1")
        await kept.finish_rest(patient=True)
        assert await kept.begin("key", "a", ONCE, 9.0) == AlreadyDone("1")

    run_virtually(main())


def test_an_answer_that_cannot_be_stored_leaves_its_count() -> None:
    async def main() -> None:
        kept = ledger(table := paper(), fence=5)
        cast("Any", kept.objects.client).takes_nothing = True
        await kept.begin("key", "a", LOOKUP, 9.0)
        kept.usage.effects["key"].add("paid", "bank", [1, 7])
        with pytest.raises(StoreError):
            await kept.finish("key", "x" * (INLINE_LIMIT + 1))
        with pytest.raises(StoreError):
            await kept.finish_rest(patient=True)
        await kept.finish_rest(patient=False)
        paid = {"call_usage": {"paid": {"bank": [1, 7]}}, "paid_fence": 5}
        assert paid.items() <= table.written[-1][0].values.items()
        later = ledger(paper(), fence=6)
        later.load([EffectRow(row("INTENT", **paid))])
        begun = await later.begin("key", "a", LOOKUP, 9.0)
        assert begun == Proceed(1, seconds=90, is_counted=True)

    run_virtually(main())


async def test_an_answer_of_an_operator_is_counted_once() -> None:
    table = paper()
    kept = ledger(table, fence=5)
    known = {"value": '"answer"', "ended_at": iso(NOW), "resolved_at": iso(NOW)}
    kept.load([EffectRow(row("DONE", **known))])
    begun = AlreadyDone('"answer"', is_counted=False)
    assert await kept.begin("key", "a", ONCE, 9.0) == begun
    kept.usage.effects["key"].add("paid", "bank", [1])
    await kept.mark_counted("key")
    [[update]] = table.written
    assert (update.values["done"], update.values["paid_fence"]) == ("DONE", 5)
    assert await kept.begin("key", "a", ONCE, 9.0) == AlreadyDone('"answer"')


async def test_a_doubt_stays() -> None:
    table = paper()
    kept = ledger(table)
    await kept.begin("key", "a", ONCE, 9.0)
    await kept.mark_unknown("key", "{}")
    assert states(table)[-1] == "UNKNOWN"
    assert await kept.begin("key", "a", ONCE, 9.0) == Unknown()


def test_undoing_a_stage_marks_its_effects_and_no_others() -> None:
    kept = ledger(paper())
    other = row("DONE", effect_key="other", stage="b")
    kept.load([EffectRow(row("DONE")), EffectRow(other)])
    (action,) = kept.compensation_updates("a")
    assert action.sk == "WORK#00000003#EFFECT#key"
    assert action.values == {"compensated": "COMPENSATED"}
    assert kept.compensation_updates("c") == []


@pytest.mark.parametrize(
    ("state", "marked"),
    [("INTENT", 1), ("UNKNOWN", 1), ("DONE", 1), ("REFUSED", 0), ("COMPENSATED", 0)],
)
def test_undoing_a_stage_marks_what_happened_or_may_have(
    state: str, marked: int
) -> None:
    kept = ledger(paper())
    kept.load([EffectRow(row(state))])
    assert marked == len(kept.compensation_updates("a"))


CALLED = Called("pay", "5ff")


@pytest.mark.parametrize(
    ("stored", "known"),
    [
        ({"state": "INTENT"}, (EffectEnd.IN_DOUBT, None)),
        ({"state": "UNKNOWN"}, (EffectEnd.IN_DOUBT, None)),
        ({"state": "DONE", "value": "7"}, (EffectEnd.HAPPENED, "7")),
        # An answer that is damaged fails only who asks for it.
        ({"state": "DONE"}, (EffectEnd.HAPPENED, None)),
        ({"state": "REFUSED"}, (EffectEnd.NOT_HAPPENED, None)),
        ({"state": "COMPENSATED", "value": "7"}, (EffectEnd.NOT_HAPPENED, None)),
    ],
)
async def test_what_is_known_of_an_effect(
    stored: dict[str, Any], known: tuple[EffectEnd, str | None]
) -> None:
    kept = ledger(paper())
    kept.load([EffectRow(row(called="pay", arguments="5ff", **stored))])

    assert [KnownEffect("a", "pay", "5ff", *known)] == await kept.known_effects("a")
    assert [KnownEffect("a", "pay", "5ff", known[0])] == await kept.known_effects("b")


async def test_an_answer_that_is_not_written_yet_is_known() -> None:
    table = paper()
    kept = ledger(table)
    await kept.begin("key", "a", ONCE, 9.0, CALLED)
    kept.hold("key", "7")
    assert [KnownEffect("a", "pay", "5ff", EffectEnd.HAPPENED, "7")] == (
        await kept.known_effects("a")
    )
    assert [("pay", "5ff")] == [(i["called"], i["arguments"]) for i in table.items()]


async def test_two_writers_of_one_end_disturb_each_other_in_nothing() -> None:
    """An effect is drained while its claim ends: both record it."""
    kept = ledger(paper())
    await kept.begin("key", "a", ONCE, 9.0, CALLED)

    await asyncio.gather(kept.finish("key", "7"), kept.finish_rest(patient=True))

    assert await kept.begin("key", "a", ONCE, 9.0) == AlreadyDone("7")


async def test_a_call_is_counted_once_though_a_lost_claim_counts_it_late() -> None:
    """Its write is applied after this claim has read the row."""
    counted = Refused({"state": "DONE", "fence": 1, "paid_fence": 1})
    table = paper(Written({}), counted)
    kept = ledger(table, fence=2)
    await kept.begin("key", "a", KEYED, 9.0, CALLED)
    for each in (kept.usage.whole, kept.usage.effects["key"]):
        each.add("paid", "bank", [1])
    kept.usage.whole.add("paid", "desk", [1])

    await kept.finish("key", "7")

    assert {"paid": {"desk": [1]}} == kept.usage.whole.item
    assert {} == kept.usage.effects
