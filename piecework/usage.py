"""What a call cost, as its answer says: tokens and, where it is known, money."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

#: A count of money is whole: billionths of a dollar.
NANO = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Usage:
    """What one call cost.

    Attributes:
        tokens_in, tokens_out: As the provider counted them.
        usd: Its price, if the answer says so; else the prices of the bill say it.
        model: Whose prices they are; empty: the dependency's name.
    """

    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0
    model: str = ""

    @property
    def amounts(self) -> Iterator[tuple[str, int]]:
        """What there is to add up, by name; nothing of what is zero."""
        found = {
            "tokens_in": int(self.tokens_in),
            "tokens_out": int(self.tokens_out),
            "nano_usd": round(self.usd * NANO),
        }
        return ((name, amount) for name, amount in found.items() if amount > 0)
