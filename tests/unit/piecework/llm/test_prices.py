"""Guarantee: an answer is priced by your own price or by a dated list."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import date
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from piecework import UsageError
from piecework.llm import Model, ModelAnswer, Price, list_price, prices

ANSWER = ModelAnswer(
    "",
    tokens_in=1_000_000,
    tokens_out=100_000,
    cached_tokens_in=400_000,
    cache_write_tokens_in=100_000,
)


async def never(_: Any) -> str:
    raise AssertionError


@pytest.mark.parametrize(
    ("price", "usd"),
    [
        (Price(input=2.0, output=10.0), 3.0),
        (Price(input=2.0, output=10.0, cached_input=0.5), 2.4),
        (Price(input=2.0, output=10.0, cached_input=0.5, cache_write=2.5), 2.45),
        (Price(input=0.0, output=0.0), 0.0),
        (Price(input=2.0, output=10.0, tiers={"flex": 0.5}), 3.0),
        (None, None),
    ],
)
def test_a_price_counts_the_tokens_of_the_cache(
    price: Price | None, usd: float | None
) -> None:
    usage = Model("mini", never, model_id="mini-1", price=price).usage_of(ANSWER)

    assert usage.usd == pytest.approx(usd)
    assert (usage.tokens_in, usage.tokens_out) == (1_000_000, 100_000)
    assert usage.model == "mini-1"


def test_the_tier_of_the_answer_decides_the_price() -> None:
    price = Price(input=2.0, output=10.0, tiers={"flex": 0.5, "priority": 1.8})

    usd = [
        price.usd(replace(ANSWER, service_tier=tier))
        for tier in ("flex", "priority", "default", "")
    ]
    assert usd == pytest.approx([1.5, 5.4, 3.0, 3.0])


def test_a_price_of_the_provider_counts_before_ours() -> None:
    stated = ModelAnswer("", tokens_in=1_000_000, usd=0.25)
    assert Model("mini", never, price=Price(2.0, 10.0)).usage_of(stated).usd == 0.25


def test_a_missing_price_list_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    with pytest.raises(UsageError) as caught:
        list_price("mini")
    assert caught.value.code == "cli.extra.missing"
    assert ".[prices]" in caught.value.next_step


class Snapshot:
    """The price list of genai-prices, with one model."""

    def __init__(self) -> None:
        days = [date(2026, 1, 1), date(2026, 5, 1)]
        changes = [SimpleNamespace(start_date=day) for day in days]
        listed = [SimpleNamespace(constraint=each) for each in (None, *changes)]
        models = [SimpleNamespace(prices=listed), SimpleNamespace(prices=object())]
        self.providers = [SimpleNamespace(models=models)]

    def find_provider_model(self, model: str, *_: Any) -> Any:
        if model != "mini":
            raise LookupError(model)
        tiers = [{"service_tier": "flex"}, {"processing": "batch"}]
        variants = [SimpleNamespace(when=each) for each in tiers]
        return "provider", SimpleNamespace(price_variants=variants)


def test_a_listed_price_is_computed_by_the_list_and_has_its_date(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    def calc_price(usage: Any, model: str, **context: Any) -> Any:
        asked.append((usage, model, *context.values()))
        return SimpleNamespace(total_price=0.5)

    package, data = ModuleType("genai_prices"), ModuleType("genai_prices.data_snapshot")
    vars(data)["get_snapshot"] = Snapshot
    vars(package).update(data_snapshot=data, Usage=dict, calc_price=calc_price)
    monkeypatch.setitem(sys.modules, "genai_prices", package)
    monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", data)
    monkeypatch.setattr(prices, "version", lambda _: "0.2.3")

    price = list_price("mini", "openai")
    assert price.usd(ANSWER) == 0.5
    amounts = {
        "input_tokens": 1_000_000,
        "cache_read_tokens": 400_000,
        "cache_write_tokens": 100_000,
        "output_tokens": 100_000,
    }
    for tier in ("flex", "batch"):
        assert price.usd(replace(ANSWER, service_tier=tier)) == 0.5
    assert asked == [
        (amounts, "mini", "openai", None),
        (amounts, "mini", "openai", {"service_tier": "flex"}),
        (amounts, "mini", "openai", {"processing": "batch"}),
    ]
    assert {"flex", "batch"} == price.tiers
    assert not price.has_tier("priority")
    assert str(price) == "mini: genai-prices 0.2.3, changes up to 2026-05-01"
    with pytest.raises(UsageError, match="no price of 'large'"):
        list_price("large")
