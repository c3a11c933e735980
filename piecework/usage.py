"""What a call cost, as its answer reports it: tokens and, if it is known, money."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

#: Money is counted in whole billionths of a dollar.
NANO = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Usage:
    """What one call cost.

    Attributes:
        tokens_in, tokens_out: As the provider counted them.
        usd: The price in dollars, if the answer reports it; 0: the bill uses its table
            of prices.
        model: The name in the table of prices; empty: the dependency's name.
    """

    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0
    model: str = ""

    @property
    def amounts(self) -> Iterator[tuple[str, int]]:
        """The amounts above zero, by name."""
        found = {
            "tokens_in": int(self.tokens_in),
            "tokens_out": int(self.tokens_out),
            "nano_usd": round(self.usd * NANO),
        }
        return ((name, amount) for name, amount in found.items() if amount > 0)
