"""What calls used, by how they were answered and by model, as the records store it.

`{"paid": {"gpt-4o": [26, 1000, 200, 31]}}`: 26 calls, 1,000 tokens in, 200 tokens out,
31 billionths of a dollar. Zeros at the end are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

#: How a call was answered: by the dependency, from the journal, from the shared cache.
#: A call that is possibly paid is paid, too; a lost claim may have paid for it before.
#: An unpriced one is paid, too: it has tokens, and its price is unknown. So is a free
#: one: its price is known to be zero. One that a cheaper tier served is paid, too; its
#: money is what a direct request would have cost more.
UsageKind: TypeAlias = Literal[
    "paid",
    "possibly_paid",
    "unpriced",
    "free",
    "replayed",
    "cached",
    "saved_by_tier",
]
KINDS: Final[tuple[UsageKind, ...]] = get_args(UsageKind)
#: The amounts of one model, in the order in which they are stored.
AMOUNTS: Final = ("calls", "tokens_in", "tokens_out", "nano_usd")
#: Models of one claim: above this number, another model is counted as `others`. And
#: characters of a model's name, because the names are stored, too. The last ones are
#: kept, because all ARNs of an account begin alike.
MAX_MODELS: Final = 20
NAME_LENGTH: Final = 48
OTHERS: Final = "others"


@dataclass(slots=True)
class CallUsage:
    """Calls, tokens and money, by kind and model.

    Attributes:
        most: The most models; a usage that is not stored may have any number.
    """

    by_kind: dict[UsageKind, dict[str, list[int]]] = field(default_factory=dict)
    most: int = MAX_MODELS

    def __bool__(self) -> bool:
        """Return whether any call is counted."""
        return bool(self.by_kind)

    def add(self, kind: UsageKind, model: str, amounts: Iterable[int]) -> None:
        """Add amounts to those of a model, in the order of `AMOUNTS`."""
        models = self.by_kind.setdefault(kind, {})
        name = model[-NAME_LENGTH:]
        if name not in models and len(models) >= self.most:
            name = OTHERS
        found = models.setdefault(name, [0] * len(AMOUNTS))
        for index, amount in enumerate(amounts):
            found[index] += amount

    def merge(self, other: CallUsage) -> None:
        """Add all amounts of another usage."""
        for kind, models in other.by_kind.items():
            for model, amounts in models.items():
                self.add(kind, model, amounts)

    def times(self, factor: float) -> CallUsage:
        """Return so many times as much: what a sample stands for."""
        found = CallUsage(most=self.most)
        for kind, models in self.by_kind.items():
            for model, amounts in models.items():
                found.add(kind, model, [round(amount * factor) for amount in amounts])
        return found

    def models(self, kind: UsageKind) -> dict[str, dict[str, int]]:
        """Return the amounts of each model by their names."""
        models = self.by_kind.get(kind, {})
        return {m: dict(zip(AMOUNTS, n, strict=True)) for m, n in models.items()}

    def total(self, kind: UsageKind) -> dict[str, int]:
        """Return the amounts of all models by their names."""
        columns = zip(*self.by_kind.get(kind, {}).values(), strict=True)
        sums = [sum(column) for column in columns] or [0] * len(AMOUNTS)
        return dict(zip(AMOUNTS, sums, strict=True))

    def less(self, other: CallUsage) -> CallUsage:
        """Return the usage without that of an earlier moment."""
        found = CallUsage()
        for kind, models in self.by_kind.items():
            before = other.by_kind.get(kind, {})
            for model, amounts in models.items():
                earlier = before.get(model, [0] * len(AMOUNTS))
                rest = [max(0, n - e) for n, e in zip(amounts, earlier, strict=True)]
                if any(rest):
                    found.add(kind, model, rest)
        return found

    @property
    def item(self) -> dict[str, dict[str, list[int]]] | None:
        """The usage as an attribute; None: there is nothing to store."""
        return {
            kind: {model: without_last_zeros(n) for model, n in models.items()}
            for kind, models in self.by_kind.items()
        } or None

    @classmethod
    def read(cls, stored: Any) -> CallUsage:
        """Return a stored usage; a malformed part of it counts as nothing."""
        found = cls()
        for kind in KINDS if isinstance(stored, Mapping) else ():
            models = stored.get(kind)
            for model, amounts in models.items() if isinstance(models, Mapping) else ():
                if is_amounts(amounts):
                    found.add(kind, str(model), amounts)
        return found


def without_last_zeros(amounts: list[int]) -> list[int]:
    """Return the amounts up to the last one that is not zero, at least one."""
    last = max((i for i, amount in enumerate(amounts) if amount), default=0)
    return amounts[: last + 1]


def is_amounts(found: Any) -> bool:
    """Return whether a stored value is a list of amounts."""
    if not isinstance(found, list) or len(found) > len(AMOUNTS):
        return False
    return all(type(amount) is int and amount >= 0 for amount in found)
