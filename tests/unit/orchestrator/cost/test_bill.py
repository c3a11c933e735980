from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from piecework.domain.call_usage import MAX_MODELS, CallUsage
from piecework.store.paid import Paid
from piecework_orchestrator.cost.bill import (
    BILLED,
    GB,
    MONTH_DAYS,
    BillLine,
    TaskSize,
    aws_lines,
    call_lines,
    sum_counts,
    total,
)
from piecework_orchestrator.cost.prices import PRICE_NAMES, Price, Prices
from piecework_orchestrator.cost.stored import Stored

#: Round prices, so that sums are easy to check.
PRICES = Prices(
    dated=date(2026, 1, 1),
    regions={"here": {name: Price(usd=2.0) for name in PRICE_NAMES}},
    models={"large-1": {"tokens_in": Price(usd=0.5), "tokens_out": Price(usd=1.5)}},
)
NOTHING = TaskSize()


def bill(counts: dict[str, int], task: TaskSize = NOTHING) -> list[BillLine]:
    return aws_lines(counts, PRICES, "here", task)


@pytest.mark.parametrize(
    ("operation", "name"), [(op, name) for op, (name, _) in BILLED.items()]
)
def test_each_operation_is_billed_by_its_requests_or_its_units(
    operation: str, name: str
) -> None:
    counts = {
        f"op__{operation}__requests": 3_000,
        f"op__{operation}__units": 7_000,
    }
    [line] = bill(counts)

    of_units = name.startswith("dynamodb")
    assert (operation, 3.0) == (line.item, line.requests)
    assert (7.0 if of_units else 3.0) == line.count
    assert (14.0 if of_units else 6.0) == line.usd


def test_an_operation_without_charge_has_no_line() -> None:
    assert [] == bill({"op__GetCallerIdentity__requests": 1_000})


def test_a_part_of_a_request_is_billed_in_part() -> None:
    assert 0.5 == total(bill({"op__ReceiveMessage__requests": 250}))


def test_rows_and_objects_are_billed_until_their_deletion() -> None:
    counts = {"op__PutObject__requests": 1_000, "op__PutObject__bytes": GB // 2}
    stored = Stored(bytes=GB, write_units=30, read_units=4)
    found = aws_lines(counts, PRICES, "here", TaskSize(), stored, days=3 * MONTH_DAYS)

    assert {
        "PutObject": 2.0,
        "rows, until deletion": 6.0,
        "backups, until deletion": 6.0,
        "deletion": 60.0,
        "deletion, reads": 8.0,
        "objects, until deletion": 3.0,
    } == {line.item: line.usd for line in found}


def test_busy_time_is_priced_with_the_address_of_its_task() -> None:
    counts = {"busy_ms": 1800 * 1000}
    large = [line.usd for line in bill(counts, TaskSize(vcpu=2, gb=4))]
    small = [line.usd for line in bill(counts)]

    assert ([2.0, 4.0, 1.0], [0.5, 1.0, 1.0]) == (large, small)


def test_logs_and_what_calls_send_have_their_lines() -> None:
    found = bill({"log_bytes": GB // 2, "call_bytes": 2 * GB})

    assert [("sent by calls", 4.0), ("taken in", 1.0), ("kept for a month", 1.0)] == [
        (line.item, line.usd) for line in found
    ]


def test_calls_are_billed_by_reported_cost_else_by_tokens() -> None:
    usage = CallUsage.read(
        {
            "paid": {
                "bank": [4, 0, 0, 3_000_000_000],
                "large-1": [2, 10, 4],
                "small": [1, 9],
                "fax": [5],
                "own": [2, 10, 4],
                "edited": "by hand",
            },
            "free": {"own": [2, 10, 4]},
            "replayed": {"large-1": [9, 99]},
        }
    )
    found = {line.item: line.usd for line in call_lines(usage, PRICES)}

    assert found == {
        "bank": 3.0,
        "fax": None,
        "large-1": None,
        "large-1, in": 5.0,
        "large-1, out": 6.0,
        "own": 0.0,
        "small": None,
        "small, in": None,
    }


@pytest.mark.parametrize("kind", ["paid", "possibly_paid", "replayed", "cached"])
def test_calls_of_a_model_without_a_reported_cost_are_billed_by_their_tokens(
    kind: Any,
) -> None:
    paid = {"large-1": [4, 50, 9, 3_000_000_000]}
    unpriced = {"large-1": [1, 10, 4]}
    usage = CallUsage.read({"paid": paid, kind: paid, "unpriced": unpriced})
    found = [(line.count, line.usd) for line in call_lines(usage, PRICES, kind)]
    assert found == [(3, 3.0), (1, None), (10, 5.0), (4, 6.0)]


def test_replayed_calls_are_unpriced_in_the_share_of_the_paid_ones() -> None:
    one, two = {"large-1": [1, 10]}, {"large-1": [2, 20]}
    usage = CallUsage.read({"paid": two, "free": one, "unpriced": one, "replayed": one})
    found = [line.usd for line in call_lines(usage, PRICES, "replayed")]
    assert [0.0, None, 2.5] == found


def test_two_profiles_of_an_account_have_their_own_lines_and_prices() -> None:
    arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/"
    models = {f"{arn}{n:012}": {"tokens_in": Price(usd=n)} for n in (1, 2)}
    usage = CallUsage.read({"paid": {name: [1, 10] for name in models}})
    lines = call_lines(usage, PRICES.model_copy(update={"models": models}))
    assert [line.usd for line in lines] == [None, 10.0, None, 20.0]


def test_each_model_of_a_job_has_a_line_however_many_its_chunks_use() -> None:
    paid = Paid()
    for n in range(2 * MAX_MODELS):
        paid.usage.merge(CallUsage.read({"paid": {f"m{n}": [1]}}))
    assert len([*call_lines(paid.usage, PRICES)]) == 2 * MAX_MODELS


def test_counts_are_added_up_by_name() -> None:
    assert {"a": 3, "b": 3} == sum_counts([{"a": 1, "b": 3}, {"a": 2}])
