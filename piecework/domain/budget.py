"""What a job may spend: tokens and money, and the cap of a budget."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

from piecework.errors import UsageError

#: Money is counted in whole billionths of a dollar.
NANO: Final = 1_000_000_000
#: The largest budget, in dollars and in tokens: their numbers are safe in JSON.
MOST_USD: Final = 1_000_000
MOST_TOKENS: Final = 1_000_000_000_000


@dataclass(frozen=True, slots=True)
class Amount:
    """Tokens, and billionths of a dollar."""

    tokens: int = 0
    nano_usd: int = 0

    def __add__(self, other: Amount) -> Amount:
        """Return the sum."""
        return Amount(self.tokens + other.tokens, self.nano_usd + other.nano_usd)

    def __sub__(self, other: Amount) -> Amount:
        """Return the difference; it may be negative."""
        return Amount(self.tokens - other.tokens, self.nano_usd - other.nano_usd)

    def __bool__(self) -> bool:
        """Return whether it is anything."""
        return bool(self.tokens or self.nano_usd)

    def or_else(self, other: Amount) -> Amount:
        """Return this amount, each kind of which there is nothing from the other."""
        return Amount(self.tokens or other.tokens, self.nano_usd or other.nano_usd)

    def fits(self, room: Amount) -> bool:
        """Return whether it is at most the room."""
        return self.tokens <= room.tokens and self.nano_usd <= room.nano_usd

    def at_least(self, other: Amount) -> Amount:
        """Return the larger of both."""
        return Amount(
            max(self.tokens, other.tokens), max(self.nano_usd, other.nano_usd)
        )

    def at_most(self, other: Amount) -> Amount:
        """Return the smaller of both, but nothing below zero."""
        return Amount(
            max(0, min(self.tokens, other.tokens)),
            max(0, min(self.nano_usd, other.nano_usd)),
        )


NOTHING: Final = Amount()


@dataclass(frozen=True, slots=True)
class Cap:
    """What a job, or a tenant on one day, may spend; None: no cap of that kind."""

    tokens: int | None = None
    nano_usd: int | None = None

    def __bool__(self) -> bool:
        """Return whether there is any cap."""
        return self.tokens is not None or self.nano_usd is not None

    def changed_by(self, other: Cap) -> Cap:
        """Return this cap, each kind replaced by the other's if that has it."""
        return Cap(
            self.tokens if other.tokens is None else other.tokens,
            self.nano_usd if other.nano_usd is None else other.nano_usd,
        )

    def counted(self, amount: Amount) -> Amount:
        """Return the kinds of an amount that this cap limits."""
        return Amount(
            0 if self.tokens is None else amount.tokens,
            0 if self.nano_usd is None else amount.nano_usd,
        )

    def less(self, amount: Amount) -> Amount:
        """Return what is left of the cap after an amount; 0 of a kind without a cap."""
        return Amount(self.tokens or 0, self.nano_usd or 0) - self.counted(amount)

    @property
    def unit(self) -> str:
        """The unit in which it is set: `tokens` if it has no dollars."""
        only_tokens = self.nano_usd is None and self.tokens is not None
        return "tokens" if only_tokens else "usd"

    def text(self) -> str:
        """Return the cap in words."""
        tokens = "" if self.tokens is None else f"{self.tokens:,} tokens"
        usd = "" if self.nano_usd is None else usd_text(self.nano_usd)
        return " and ".join(filter(None, (usd, tokens)))

    def text_of(self, amount: Amount) -> str:
        """Return in words the kinds of an amount that this cap limits."""
        tokens = None if self.tokens is None else amount.tokens
        return Cap(tokens, None if self.nano_usd is None else amount.nano_usd).text()


NO_CAP: Final = Cap()


def usd_text(nano_usd: int) -> str:
    """Return an amount of money with two to six decimals, or nine of a tiny one."""
    digits = 6 if nano_usd >= NANO // 10**6 else 9
    dollars = f"{Decimal(nano_usd) / NANO:,.{digits}f}".rstrip("0")
    whole, _, rest = dollars.partition(".")
    return f"{whole}.{rest:0<2} USD"


def parse_cap(usd: object, tokens: object) -> Cap:
    """Return the cap that a user gave; None: no cap of that kind.

    Raises:
        UsageError: `submit.budget.invalid`.
    """
    return Cap(
        _parsed(tokens, 1, MOST_TOKENS, "a number of tokens, such as 2000000"),
        _parsed(usd, NANO, MOST_USD, "dollars, such as 40 or 2.50"),
    )


def _parsed(given: object, unit: int, most: int, example: str) -> int | None:
    if given is None or given == "":
        return None
    with suppress(InvalidOperation):
        value = Decimal(str(given).replace("_", "")) * unit
        if 0 < value <= most * unit and value == value.to_integral_value():
            return int(value)
    message = f"{str(given)[:40]!r} is not a budget."
    step = f"Use {example}, up to {most:,}."
    raise UsageError(message, code="submit.budget.invalid", next_step=step)
