from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
import yaml

from orchestrator.pricing.table import NAMES, SHIPPED, load_prices
from piecework.errors import UsageError


def test_each_region_that_comes_with_us_has_each_price_with_its_source() -> None:
    prices = load_prices()

    assert {"us-east-1", "eu-west-1"} == set(prices.regions)
    for region, table in prices.regions.items():
        assert set(NAMES) == set(table), region
        assert [] == [n for n, p in table.items() if p.source == "given" or not p.seen]
        assert [] == [n for n, p in table.items() if not p.unit or not p.usd]


def test_a_price_from_memory_says_so_and_is_as_old_as_the_table() -> None:
    prices = load_prices()
    remembered = [
        price
        for table in prices.regions.values()
        for price in table.values()
        if "memory" in price.source
    ]

    assert {"from memory, check"} == {price.source for price in remembered}
    assert {prices.dated} == {price.seen for price in remembered}


def given(folder: Path, text: str) -> Path:
    path = folder / "prices.yaml"
    path.write_text(text)
    return path


def test_a_file_goes_over_the_prices_that_come_with_us(tmp_path: Path) -> None:
    path = given(
        tmp_path,
        "dated: 2027-01-01\n"
        "regions:\n"
        "  us-east-1: {sqs_request: {usd: 1, per: 1000000}}\n"
        "  eu-north-1: {sqs_request: {usd: 2, per: 1000000}}\n"
        "models: {large-4.5: {tokens_in: {usd: 3, per: 1000000}}}\n",
    )
    prices = load_prices(path)

    assert date(2027, 1, 1) == prices.dated
    assert 0.000001 == prices.of("us-east-1", "sqs_request").of_one
    assert 0.000002 == prices.of("eu-north-1", "sqs_request").of_one
    shipped = load_prices().of("us-east-1", "s3_put")
    assert shipped == prices.of("us-east-1", "s3_put")
    # By its plain name, as the counts have it.
    assert 0.000003 == prices.of_model("large_4_5")["tokens_in"].of_one
    assert {} == prices.of_model("small")


def test_what_a_region_has_no_price_of_is_said_with_the_regions(
    tmp_path: Path,
) -> None:
    with pytest.raises(UsageError) as refused:
        load_prices().of("eu-north-1", "sqs_request")

    assert "config.price.missing" == refused.value.code
    assert "eu-west-1, us-east-1" in refused.value.message
    assert "--prices" in refused.value.next_step


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("regions: {}", "dated"),
        ("dated: 2027-01-01\nregions: {a: {sqs_requests: {usd: 1}}}", "sqs_requests"),
        ("dated: 2027-01-01\nregions: {a: {s3_put: {usd: -1}}}", "s3_put.usd"),
        ("dated: 2027-01-01\nregions: {a: {s3_put: {usd: 1, per: 0}}}", "s3_put.per"),
        ("dated: 2027-01-01\nregions: {a: {s3_put: {usd: .nan}}}", "s3_put.usd"),
        ("dated: 2027-01-01\nmore: 1", "more"),
        ("a: [", "cannot be read"),
        ("- 1", "the file"),
    ],
)
def test_a_file_that_is_no_table_of_prices_is_refused_with_what_is_wrong(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        load_prices(given(tmp_path, text))

    assert "config.prices.invalid" == refused.value.code
    assert said in refused.value.message


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        load_prices(tmp_path / "none.yaml")
    assert "config.prices.invalid" == refused.value.code


def test_the_file_is_plain_yaml() -> None:
    assert {"dated", "regions", "models"} == set(yaml.safe_load(SHIPPED.read_text()))
