"""Define small models of parts of the protocol; their states are plain tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from verification.model.checker import Model
from verification.model.space import Space
from verification.model.state import Config


class Move(NamedTuple):
    """A next state with its label, whether it is a fault, and what it breaks."""

    state: Any
    label: str
    fault: bool = False
    broken: str = ""


#: Returns whether the protocol still has a guard.
Has: TypeAlias = Callable[[str], bool]


class SmallModel(NamedTuple):
    """A small model; its moves name what they violate."""

    name: str
    initial: Any
    moves: Callable[[Has, Any], Iterator[Move]]
    ended: Callable[[Any], bool]
    removed: frozenset[str] = frozenset()
    share: int = 4

    def start(self) -> Any:
        return self.initial

    def after(self, state: Any) -> Iterator[Move]:
        return self.moves(self.has, state)

    def wrong(self, state: Any) -> str:
        return ""

    def is_final(self, state: Any) -> bool:
        return self.ended(state)

    def has(self, guard: str) -> bool:
        return guard not in self.removed


def model_of(run: Config | SmallModel) -> Model:
    """Return the model of a run."""
    return Space(run) if isinstance(run, Config) else run
