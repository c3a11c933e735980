"""Execute transactions: all actions or none; a token is applied once."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simulation.cloud.answers import (
    NO_REASON,
    InvalidError,
    cancelled,
    condition_reason,
    error,
)
from simulation.cloud.writes import Decided, RefusedError, Write

TOKEN_S = 600.0
MOST_ACTIONS = 100
LARGEST = 4 * 1024 * 1024


def decide_all(writes: Sequence[Write]) -> list[Decided]:
    """Decide every action of a transaction; one that fails cancels all."""
    if len({(write.table, write.pk, write.sk) for write in writes}) < len(writes):
        raise InvalidError(
            "Transaction request cannot include multiple operations on one item"
        )
    decided: list[Decided] = []
    reasons: list[Mapping[str, Any]] = []
    for write in writes:
        try:
            decided.append(write.decide())
            reasons.append(NO_REASON)
        except RefusedError as wrong:
            reasons.append(condition_reason(wrong.item))
        except InvalidError as wrong:
            reasons.append({"Code": "ValidationError", "Message": str(wrong)})
    if len(decided) < len(writes):
        raise cancelled(reasons)
    if sum(size for _, _, size in decided) > LARGEST:
        raise InvalidError("Transaction is larger than 4 MB")
    return decided


def check_number(actions: Sequence[Any]) -> None:
    """Raise if a transaction has no actions, or too many."""
    if not 0 < len(actions) <= MOST_ACTIONS:
        raise InvalidError(
            "1 validation error detected: Value at 'transactItems' failed to satisfy"
            " constraint: Member must have length less than or equal to 100, and"
            " greater than or equal to 1"
        )


@dataclass(slots=True)
class Tokens:
    """The tokens of the transactions that were applied in the last ten minutes."""

    _applied: dict[str, Any] = field(default_factory=dict)
    _ends: deque[tuple[float, str]] = field(default_factory=deque)

    def is_again(self, token: str, actions: Any, now: float) -> bool:
        """Return whether a transaction was applied before under the same token."""
        while self._ends and self._ends[0][0] <= now:
            del self._applied[self._ends.popleft()[1]]
        if token not in self._applied:
            return False
        if self._applied[token] != actions:
            raise error(
                "transact_write_items",
                "IdempotentParameterMismatchException",
                "ClientRequestToken has been used with a different request payload",
            )
        return True

    def keep(self, token: str, actions: Any, now: float) -> None:
        """Remember a transaction that is applied."""
        self._applied[token] = actions
        self._ends.append((now + TOKEN_S, token))
