from __future__ import annotations

import pytest

from bench.meter import Counts
from piecework_orchestrator.cost.prices import load_prices

BEFORE = Counts.read({"dynamodb.UpdateItem": [2, 2, 2, 10, 10]})
AFTER = Counts.read(
    {
        "dynamodb.UpdateItem": [3, 3, 7, 20, 20],
        "dynamodb.Query": [1, 1, 4, 0, 0],
        "sqs.SendMessageBatch": [2, 3, 0, 0, 0],
        "sqs.CreateQueue": [9, 9, 0, 0, 0],
        "other.unknown": [9, 9, 0, 0, 0],
    }
)


def test_what_is_asked_once_a_deployment_is_no_cost_of_the_work() -> None:
    assert 6 == AFTER.requests


def test_counts_are_taken_between_two_looks() -> None:
    since = AFTER.since(BEFORE)

    assert (1, 5, 4) == (
        since.requests_of("dynamodb.UpdateItem"),
        since.units(reads=False),
        since.units(reads=True),
    )


def test_units_and_billed_requests_have_their_price() -> None:
    dollars = AFTER.since(BEFORE).usd(load_prices())

    assert pytest.approx((3 * 0.4 + 5 * 0.625 + 4 * 0.125) / 1e6) == dollars
