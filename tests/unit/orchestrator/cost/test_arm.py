"""Tasks on ARM have their own prices, in the bill of a job and of an idle month."""

from __future__ import annotations

from datetime import date

import pytest

from piecework.settings import Settings
from piecework_orchestrator.cost.bill import TaskSize, aws_lines
from piecework_orchestrator.cost.idle import IdleDeployment, idle_lines
from piecework_orchestrator.cost.prices import PRICE_NAMES, Price, Prices, load_prices

#: Every price differs from the others, so that a wrong one shows.
BY_NAME = {name: Price(usd=float(n)) for n, name in enumerate(PRICE_NAMES, start=1)}
PRICES = Prices(dated=date(2026, 1, 1), regions={"here": BY_NAME})


of_each_processor = pytest.mark.parametrize(
    ("arm", "names"),
    [
        (False, ["fargate_vcpu_hour", "fargate_gb_hour"]),
        (True, ["fargate_arm_vcpu_hour", "fargate_arm_gb_hour"]),
    ],
)


@of_each_processor
def test_the_busy_hours_of_a_job_have_the_price_of_their_processor(
    names: list[str], *, arm: bool
) -> None:
    lines = aws_lines(
        {"busy_ms": 3_600_000}, PRICES, "here", TaskSize(vcpu=1, gb=1, arm=arm)
    )
    priced = {*names, "public_ipv4_hour"}
    expected = [price.usd for name, price in BY_NAME.items() if name in priced]
    assert expected == [line.usd for line in lines]


@of_each_processor
def test_every_task_of_an_idle_month_has_the_price_of_its_processor(
    names: list[str], *, arm: bool
) -> None:
    deployment = IdleDeployment(workers=1, vcpu=1.0, gb=1.0, arm=arm)
    fargate = [
        line
        for line in idle_lines(Settings(), deployment, PRICES, "here")
        if line.group == "Fargate"
    ]
    expected = {price.usd for name, price in BY_NAME.items() if name in names}
    assert 4 == len(fargate)
    assert expected == {line.unit_price for line in fargate}


def test_arm_is_cheaper_in_every_region_that_ships_with_prices() -> None:
    for region, prices in load_prices().regions.items():
        for unit in ("vcpu", "gb"):
            usual, arm = (prices[f"fargate_{kind}{unit}_hour"] for kind in ("", "arm_"))
            assert arm.unit_price < usual.unit_price, (region, unit)
