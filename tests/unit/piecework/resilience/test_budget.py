"""The plan of a budget: what each worker may spend, and what a lost one may have."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from piecework.domain.budget import NOTHING, Amount, Cap, parse_cap
from piecework.errors import UsageError
from piecework.resilience.budget import (
    EARLIER,
    MOST_EXPIRED,
    SLICE_LASTS,
    Budget,
    Slice,
    plan_slice,
    recounted,
    tidied,
)


def test_slices_and_what_is_spent_never_exceed_the_cap() -> None:
    rng = Random(7)
    budget, held = Budget(requested=Cap(1_000)), dict.fromkeys("abcd", 0)
    for now in range(0, 40 * SLICE_LASTS, SLICE_LASTS // 4):
        worker = rng.choice("abcd")
        spent = rng.randint(0, held[worker])
        held[worker] -= spent
        waiting = [Amount(rng.randint(1, 60)) for _ in range(rng.randint(0, 3))]
        budget = plan_slice(
            budget,
            worker,
            spent=Amount(spent),
            held=Amount(held[worker]),
            waiting=waiting,
            ahead=Amount(rng.randint(0, 50)),
            now=now,
            number=1,
        )
        mine = budget.slices[worker].amount.tokens
        assert mine >= held[worker]
        held[worker] = rng.randint(0, mine)
        slices = sum(each.amount.tokens for each in budget.slices.values())
        assert budget.spent.tokens + slices <= 1_000
    assert budget.spent.tokens > 700


def test_a_call_that_does_not_fit_keeps_later_ones_waiting_and_takes_nothing() -> None:
    after = plan_slice(
        Budget(requested=Cap(100), spent=Amount(40)),
        "w",
        spent=NOTHING,
        held=Amount(10),
        waiting=[Amount(20), Amount(50), Amount(1)],
        ahead=Amount(9),
        now=0,
        number=1,
    )
    assert after.slices["w"].amount == Amount(30)


def test_what_a_lost_worker_had_reserved_stays_counted_until_it_is_recounted() -> None:
    slices = {"dead": Slice(Amount(60), 10), "alive": Slice(Amount(20), 30)}
    budget = Budget(requested=Cap(100), spent=Amount(15), slices=slices)
    assert budget.room(now=20) == Amount(5)
    after = recounted(budget, Amount(40), Amount(12), 20, "then")
    assert (after.spent, after.room(now=20)) == (Amount(40), Amount(100 - 40 - 20 - 12))
    assert after.uncertain(now=20) == Amount(12)
    assert recounted(after, Amount(52), NOTHING, 20, "later").room(20) == Amount(28)


def test_the_slices_of_many_lost_workers_are_added_up() -> None:
    slices = {f"w{n}": Slice(Amount(n), n) for n in range(1, 60)}
    kept = tidied({**slices, "empty": Slice(NOTHING, 5)}, now=1_000)
    assert len(kept) <= MOST_EXPIRED + 1
    assert "empty" not in kept
    assert sum(each.amount.tokens for each in kept.values()) == sum(range(60))
    again = tidied({**kept, "new": Slice(Amount(1), 900)}, now=1_000)
    assert again[EARLIER].amount.tokens > kept[EARLIER].amount.tokens


@pytest.mark.parametrize(
    ("usd", "tokens", "cap"),
    [
        ("40", None, Cap(None, 40_000_000_000)),
        (2.5, "1_000", Cap(1_000, 2_500_000_000)),
        (None, "", Cap()),
    ],
)
def test_a_budget_is_read_exactly(usd: object, tokens: object, cap: Cap) -> None:
    assert parse_cap(usd, tokens) == cap


def test_a_small_budget_is_shown_exactly() -> None:
    assert parse_cap("0.0000004", None).text() == "0.0000004 USD"
    assert parse_cap("0.374381917", None).text() == "0.374382 USD"


@pytest.mark.parametrize("given", ["0", "-1", "abc", "1e9", "NaN", "1.0000000001"])
def test_no_amount_of_money_is_refused(given: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_cap(given, None)
    assert error.value.code == "submit.budget.invalid"


def test_a_cap_of_an_operator_replaces_only_its_kind() -> None:
    budget = Budget(requested=Cap(100, 7), operator=Cap(None, 2_500_000_000))
    assert budget.cap == Cap(100, 2_500_000_000)
    assert budget.cap.text() == "2.50 USD and 100 tokens"
    assert replace(budget, requested=Cap(5)).cap.text().endswith(" and 5 tokens")
