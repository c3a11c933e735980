"""Guarantee: an amount of money has the digits that matter, and no more."""

from __future__ import annotations

import pytest

from piecework_orchestrator.reading.numbers import dollars, format_usd, format_used


@pytest.mark.parametrize(
    ("usd", "digits"),
    [
        (0.0, "0"),
        (1e-9, "< 0.000001"),
        (0.00000314, "0.0000031"),
        (0.0996, "0.10"),
        (0.1, "0.10"),
        (0.0123, "0.012"),
        (0.456, "0.46"),
        (0.999, "1.00"),
        (1.0, "1.00"),
        (1204.5, "1,204.50"),
    ],
)
def test_money_has_cents_or_two_digits(usd: float, digits: str) -> None:
    assert format_usd(usd) == f"{digits} USD"
    assert dollars(usd).replace("$", "") == digits


def test_the_sign_of_dollars_is_before_the_digits() -> None:
    assert ("$0.46", "< $0.000001") == (dollars(0.456), dollars(1e-9))


def test_what_was_not_used_is_not_named() -> None:
    assert ["1 call", "1,200 tokens", "2.00 USD"] == format_used(1, 1200, 2)
    assert [] == format_used(0, 0, 0.0)
