"""What an answer of a model costs: by your own price, or by a dated price list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import version
from typing import Any, Final, Protocol

from piecework.errors import UsageError
from piecework.errors.extras import naming_extras
from piecework.llm.request import ModelAnswer

MILLION: Final = 1_000_000


class Priced(Protocol):
    """Computes the price of an answer."""

    def usd(self, answer: ModelAnswer) -> float:
        """Return the price in dollars."""


@dataclass(frozen=True, slots=True)
class Price:
    """A price of your own, in dollars for a million tokens.

    Attributes:
        cached_input: For tokens that were read from a cache; None: as `input`.
        cache_write: For tokens that were written to a cache; None: as `input`.
        tiers: What an answer of another tier costs, as a factor of all these prices, by
            the tier that the answer names: `{"flex": 0.5}`. Other tiers cost 1.

    Raises:
        UsageError: `pipeline.declaration.invalid`: a price or a factor is negative.
    """

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None
    tiers: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a negative price."""
        prices = [self.input, self.output, self.cached_input, self.cache_write]
        prices += self.tiers.values()
        if any(each is not None and not each >= 0 for each in prices):
            message = f"{self} has a price below zero."
            raise UsageError(message, code="pipeline.declaration.invalid")

    def has_tier(self, tier: str) -> bool:
        """Return whether it says what that tier costs."""
        return tier in self.tiers or not (self.input or self.output)

    def usd(self, answer: ModelAnswer) -> float:
        """Return the price of an answer in dollars."""
        cached = self.input if self.cached_input is None else self.cached_input
        written = self.input if self.cache_write is None else self.cache_write
        read, write = answer.cached_tokens_in, answer.cache_write_tokens_in
        total = (
            (answer.tokens_in - read - write) * self.input
            + read * cached
            + write * written
            + answer.tokens_out * self.output
        )
        return total * self.tiers.get(answer.service_tier, 1.0) / MILLION


# ── the price list of the package genai-prices ────────────────────────────────


@dataclass(frozen=True, slots=True)
class ListPrice:
    """The price of a model in the price list of the package `genai-prices`.

    The list has prices that depend on the number of tokens, on the tier that served the
    request or on the date. An answer has the price of the day on which it is counted.
    One of a tier that the list lacks has the model's usual price.

    Attributes:
        dated: The day of the newest change of a price in the installed list, also of a
            planned one. The list has no other date.
        tiers: The tiers of which the list has a price.
    """

    model_id: str
    provider: str
    source: str
    dated: date
    tiers: frozenset[str] = frozenset()

    def has_tier(self, tier: str) -> bool:
        """Return whether the list says what that tier costs."""
        return tier in self.tiers

    def usd(self, answer: ModelAnswer) -> float:
        """Return the price of an answer in dollars."""
        from genai_prices import Usage, calc_price

        usage = Usage(
            input_tokens=answer.tokens_in,
            cache_read_tokens=answer.cached_tokens_in,
            cache_write_tokens=answer.cache_write_tokens_in,
            output_tokens=answer.tokens_out,
        )
        tier = answer.service_tier
        found = calc_price(
            usage,
            self.model_id,
            provider_id=self.provider or None,
            price_context={key_of(tier): tier} if tier else None,
        )
        return float(found.total_price)

    def __str__(self) -> str:
        """Return the model, the source and its date."""
        return f"{self.model_id}: {self.source}, changes up to {self.dated}"


def list_price(model_id: str, provider: str = "") -> ListPrice:
    """Return the price of a model by the installed price list; nothing is downloaded.

    Args:
        model_id: The provider's id of the model.
        provider: The list's name of the provider, such as `openai`, `anthropic` or
            `aws`; empty: the list finds it by the id.

    Raises:
        UsageError: `cli.extra.missing`: the extra `prices` is not installed;
            `config.price.missing`: the list does not have the model.
    """
    with naming_extras():
        from genai_prices import data_snapshot
    snapshot = data_snapshot.get_snapshot()
    source = f"genai-prices {version('genai-prices')}"
    try:
        _, found = snapshot.find_provider_model(model_id, None, provider or None, None)
    except LookupError as error:
        raise UsageError(
            f"{source} has no price of {model_id!r}.",
            code="config.price.missing",
            next_step="Declare your own: Model(…, price=Price(input=…, output=…)).",
        ) from error
    newest = max(_changes(snapshot.providers))
    tiers = {
        tier
        for each in found.price_variants or ()
        for key, tier in each.when.items()
        if key == key_of(tier)
    }
    return ListPrice(model_id, provider, source, newest, frozenset(tiers))


def key_of(tier: str) -> str:
    """Return the condition of the list that has this value: it has batches apart."""
    return "processing" if tier == "batch" else "service_tier"


def _changes(providers: Any) -> Iterator[date]:
    """Yield the day of each change of a price."""
    for provider in providers:
        for model in provider.models:
            prices = model.prices if isinstance(model.prices, list) else []
            for each in prices:
                day = getattr(each.constraint, "start_date", None)
                if day is not None:
                    yield day
