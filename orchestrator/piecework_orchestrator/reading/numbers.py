"""Format numbers for people: money with the digits that matter."""

from __future__ import annotations

from typing import Final

#: The least amount of dollars that is written; and from here on, cents are.
SMALLEST_USD: Final = 1e-6
CENTS_FROM_USD: Final = 1.0


def usd_digits(usd: float) -> str:
    """Return an amount without its currency: cents, or two digits of less than one."""
    if usd >= CENTS_FROM_USD:
        return f"{usd:,.2f}"
    if usd >= SMALLEST_USD:
        # Not `.2g`: that writes 0.1 where the other lines of a bill have 0.13.
        places = 2
        while round(usd, places) < 10.0 ** (1 - places):
            places += 1
        return f"{usd:.{places}f}"
    return f"< {SMALLEST_USD:f}" if usd else "0"


def format_usd(usd: float) -> str:
    """Return dollars in words: `0.45 USD`, `1,204.50 USD`, `< 0.000001 USD`."""
    return f"{usd_digits(usd)} USD"


def dollars(usd: float) -> str:
    """Return dollars as a page writes them: `$0.45`, `< $0.000001`, `$0`."""
    digits = usd_digits(usd)
    less = digits.startswith("<")
    return f"< ${digits[2:]}" if less else f"${digits}"


def format_used(calls: int, tokens: int, usd: float) -> list[str]:
    """Return calls, tokens and dollars in words; zeros are left out."""
    words = [f"{calls:,} call{'s' * (calls != 1)}"] if calls else []
    words += [f"{tokens:,} token{'s' * (tokens != 1)}"] if tokens else []
    return words + ([format_usd(usd)] if usd else [])
