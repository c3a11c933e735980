from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from piecework.errors import UsageError
from piecework_orchestrator.cost.prices import PRICE_NAMES, load_prices


def test_each_shipped_region_has_every_price_with_its_source() -> None:
    prices = load_prices()

    assert {"us-east-1", "eu-west-1"} == set(prices.regions)
    for region, table in prices.regions.items():
        assert set(PRICE_NAMES) == set(table), region
        assert [] == [
            n for n, p in table.items() if p.source == "user" or not p.checked_on
        ]
        assert [] == [n for n, p in table.items() if not p.unit or not p.usd]


def test_a_price_from_memory_is_marked_and_dated_like_the_table() -> None:
    prices = load_prices()
    from_memory = [
        price
        for table in prices.regions.values()
        for price in table.values()
        if "memory" in price.source
    ]

    assert {"from memory, check"} == {price.source for price in from_memory}
    assert {prices.dated} == {price.checked_on for price in from_memory}


def write_prices(folder: Path, text: str) -> Path:
    path = folder / "prices.yaml"
    path.write_text(text)
    return path


def test_a_file_overrides_the_shipped_prices(tmp_path: Path) -> None:
    path = write_prices(
        tmp_path,
        "dated: 2027-01-01\n"
        "regions:\n"
        "  us-east-1: {sqs_request: {usd: 1, per: 1000000}}\n"
        "  eu-north-1: {sqs_request: {usd: 2, per: 1000000}}\n"
        "models: {large-4.5: {tokens_in: {usd: 3, per: 1000000}}}\n",
    )
    prices = load_prices(path)

    assert date(2027, 1, 1) == prices.dated
    assert 0.000001 == prices.price("us-east-1", "sqs_request").unit_price
    assert 0.000002 == prices.price("eu-north-1", "sqs_request").unit_price
    shipped = load_prices().price("us-east-1", "s3_put")
    assert shipped == prices.price("us-east-1", "s3_put")
    assert 0.000003 == prices.model_prices("large-4.5")["tokens_in"].unit_price
    assert {} == prices.model_prices("small")


def test_a_missing_price_is_an_error_that_lists_the_known_regions(
    tmp_path: Path,
) -> None:
    with pytest.raises(UsageError) as refused:
        load_prices().price("eu-north-1", "sqs_request")

    assert "config.price.missing" == refused.value.code
    assert "eu-west-1, us-east-1" in refused.value.message
    assert "--prices" in refused.value.next_step


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("regions: {}", "dated"),
        ("dated: 2027-01-01\nregions: {a: {sqs_requests: {usd: 1}}}", "sqs_requests"),
        ("dated: 2027-01-01\nregions: {a: {s3_put: {usd: -1}}}", "s3_put.usd"),
        ("dated: 2027-01-01\nregions: {a: {s3_put: {usd: 1, per: 0}}}", "s3_put.per"),
        ("dated: 2027-01-01\nregions: {a: {s3_put: {usd: .nan}}}", "s3_put.usd"),
        ("dated: 2027-01-01\nmore: 1", "more"),
        ("a: [", "cannot be read"),
        ("dated: 2027-13-01", "cannot be read"),
        ("- 1", "the file"),
        ("", "cannot be read"),  # a missing file
    ],
)
def test_an_invalid_table_of_prices_is_refused_with_the_problem(
    tmp_path: Path, text: str, problem: str
) -> None:
    path = write_prices(tmp_path, text) if text else tmp_path / "none.yaml"
    with pytest.raises(UsageError) as refused:
        load_prices(path)

    assert "config.prices.invalid" == refused.value.code
    assert problem in refused.value.message
