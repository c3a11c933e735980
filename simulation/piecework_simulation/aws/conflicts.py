"""Hold the items of a transaction while it lasts; other writes of them are refused.

AWS's rules are on two of its pages. The first says which requests conflict, the second
which errors a transaction has:

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html
    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html

An item that a transaction only checks is held, too. A read of an item is never refused.
What the pages leave open is drawn: how long a transaction lasts, whether one that is
cancelled for a conflict has held its other items, and whether the reasons of a
cancellation also name the conditions that fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

from piecework_simulation.aws.errors import error

#: An item: its table and its key.
Place: TypeAlias = tuple[str, str, str]

#: The reason of an item that another request holds.
CONFLICT = {
    "Code": "TransactionConflict",
    "Message": "Transaction is ongoing for the item",
}
#: The longest time of a transaction of the models that answer in true time, in seconds.
IN_TRUE_TIME_S = 0.01
#: The chance that a cancelled transaction has held its other items for a moment.
HELD_ANYHOW = 0.5
#: Items after which those that are no longer held are forgotten.
FORGET_AT = 4096


@dataclass(slots=True)
class Conflicts:
    """The transactions that last.

    Attributes:
        longest_s: The longest time of a transaction; most are much shorter.
        took_s: Seconds that the last request took, after which its answer is sent.
        refused: Requests that were refused for a conflict.
    """

    now: Callable[[], float]
    rng: Random
    longest_s: float
    took_s: float = 0.0
    refused: int = 0
    _held: dict[Place, float] = field(default_factory=dict)
    _tokens: dict[str, float] = field(default_factory=dict)

    def is_held(self, place: Place) -> bool:
        """Return whether a transaction that lasts has this item."""
        until = self._held.get(place)
        return until is not None and until > self.now()

    def check(self, operation: str, place: Place) -> None:
        """Refuse a single write of an item that a transaction holds."""
        if self.is_held(place):
            self.refused += 1
            code = "TransactionConflictException"
            raise error(operation, code, CONFLICT["Message"])

    def check_token(self, token: str) -> None:
        """Refuse a second request of a transaction that still lasts."""
        if self._tokens.get(token, 0.0) > self.now():
            raise error(
                "transact_write_items",
                "TransactionInProgressException",
                "The transaction with the given request token is already in progress.",
            )

    def begin(self, places: Sequence[Place], token: str | None) -> set[int]:
        """Hold the items of a transaction; or return the positions that others hold."""
        taken = {at for at, place in enumerate(places) if self.is_held(place)}
        took_s = self.rng.random() ** 2 * self.longest_s
        if taken:
            self.refused += 1
            took_s *= self.rng.random()
            if self.rng.random() < HELD_ANYHOW:
                free = [p for at, p in enumerate(places) if at not in taken]
                self._hold(free, took_s)
        else:
            self._hold(places, took_s)
            if token is not None:
                self._tokens[token] = self.now() + took_s
        self.took_s = took_s
        return taken

    def names_conditions(self) -> bool:
        """Return whether a cancelled transaction also names failed conditions."""
        return self.rng.random() < HELD_ANYHOW

    def _hold(self, places: Sequence[Place], seconds: float) -> None:
        now = self.now()
        for held in (self._held, self._tokens):
            if len(held) >= FORGET_AT:
                over = [key for key, until in held.items() if until <= now]
                for key in over:
                    del held[key]  # type: ignore[arg-type] # its own key
        self._held |= dict.fromkeys(places, now + seconds)
