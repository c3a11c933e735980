"""Search all states of a model breadth first, with shortest traces to violations."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

STUCK = "a final state can always be reached"


class Model(Protocol):
    """The interface of a model."""

    def start(self) -> Hashable:
        """Return the first state."""

    def after(self, state: Any) -> Iterable[tuple[Hashable, str, bool, str]]:
        """Yield each next state: its label, whether it is a fault, what it breaks."""

    def wrong(self, state: Any) -> str:
        """Return the violations of a state itself."""

    def is_final(self, state: Any) -> bool:
        """Return whether everything has ended."""


@dataclass(slots=True)
class Found:
    """The result of a run: a shortest trace to each violated property."""

    states: int
    complete: bool
    broken: dict[str, list[str]]


def explore(model: Model, limit: int, expect: str = "") -> Found:
    """Explore the states up to a limit; stop early at an expected violation."""
    start = model.start()
    order, index = [start], {start: 0}
    parent, source, target = array("l", [-1]), array("l"), array("l")
    broken: dict[str, list[str]] = {}
    here = 0
    while here < len(order) and len(order) < limit:
        for key, label, fault, breaks in model.after(order[here]):
            there = index.get(key)
            if there is None:
                there = index[key] = len(order)
                order.append(key)
                parent.append(here)
                if (wrong := model.wrong(key)) and wrong not in broken:
                    broken[wrong] = trace(model, order, parent, there)
            if breaks and breaks not in broken:
                broken[breaks] = [*trace(model, order, parent, here), label]
            if not fault:
                source.append(here)
                target.append(there)
        here += 1
        if expect and expect in broken:
            break
    complete = here == len(order)
    if complete and (stuck := first_stuck(model, order, source, target)) is not None:
        broken[STUCK] = trace(model, order, parent, stuck)
    return Found(len(order), complete, broken)


def first_stuck(
    model: Model, order: list[Any], source: array[int], target: array[int]
) -> int | None:
    """Return the first state that cannot reach a final state without faults."""
    good = bytearray(map(model.is_final, order))
    changed = True
    while changed:
        changed = False
        for here, there in zip(reversed(source), reversed(target), strict=True):
            if good[there] and not good[here]:
                good[here] = changed = True
    return good.index(0) if 0 in good else None


def trace(model: Model, order: list[Any], parent: array[int], at: int) -> list[str]:
    """Name the actions that lead to a state."""
    labels: list[str] = []
    while (before := parent[at]) >= 0:
        labels.append(
            next(
                label
                for key, label, *_ in model.after(order[before])
                if key == order[at]
            )
        )
        at = before
    return labels[::-1]
