"""Breadth-first search of every state, by numbered parts and remembered steps.

A state is a tuple of numbers, one for each part: job, chunks, join, workers. What an
action does depends on few parts, so that it is worked out once for each of their
combinations.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.model import around, turn, worker
from tests.model.state import (
    ENDED,
    IDLE,
    JOB_ENDED,
    OPEN,
    SEES_ABSENT,
    SEES_NO_RESULT,
    SEES_OPEN,
    Chunk,
    Config,
    Effect,
    Job,
    Js,
    St,
    Step,
)

State: TypeAlias = tuple[int, ...]
#: Which parts change to what; a label's number; whether it is a fault; what it breaks.
Move: TypeAlias = tuple[tuple[tuple[int, int], ...], str, bool, str]
STUCK = "a quiet end can always be reached"
LEFT_BEHIND = "a job ends after its chunks"


@dataclass(slots=True)
class Found:
    """What a run found: for each broken property, a shortest trace."""

    states: int
    complete: bool
    broken: dict[str, list[str]]


@dataclass(slots=True)
class Space:
    """The numbered parts of one configuration's states."""

    cfg: Config
    parts: list[Any] = field(default_factory=list)
    numbers: dict[Any, int] = field(default_factory=dict)
    moves: dict[tuple[int, ...], list[Move]] = field(default_factory=dict)
    sees: dict[int, int] = field(default_factory=dict)

    def number(self, part: Any) -> int:
        key = (type(part), part)
        if key not in self.numbers:
            self.numbers[key] = len(self.parts)
            self.parts.append(part)
            if isinstance(part, Chunk):
                self.sees[self.numbers[key]] = seen(part)
        return self.numbers[key]

    def start(self) -> State:
        cfg = self.cfg
        empty = (0,) * cfg.gens
        effects = (Effect(),) * cfg.stages if cfg.effects else ()
        chunk = self.number(Chunk(queue=empty, effects=effects))
        join = self.number(Chunk(queue=empty))
        idle = self.number(IDLE)
        return (
            self.number(Job()),
            *[chunk] * cfg.chunks,
            join,
            *[idle] * cfg.workers,
        )

    def after(self, state: State) -> Iterable[Move]:
        """Yield every move from a state."""
        n, job, moves = self.cfg.chunks, state[0], self.moves
        census = 0
        for part in state[1 : n + 1]:
            census |= self.sees[part]
        key: tuple[int, ...] = (job, state[n + 1], census)
        yield from moves.get(key) or self.job_moves(key)
        for at in range(1, n + 2):
            key = (job, state[at], at, -1)
            found = moves.get(key)
            yield from self.chunk_moves(key) if found is None else found
        for at in range(n + 2, len(state)):
            busy = self.parts[state[at]]
            targets = [busy.target + 1] if busy.pc else range(1, n + 2)
            for target in targets:
                key = (job, state[target], state[at], target, at, census)
                found = moves.get(key)
                yield from self.worker_moves(key) if found is None else found

    def job_moves(self, key: tuple[int, ...]) -> list[Move]:
        job, join, census = key
        steps = around.around_job(self.cfg, self.parts[job], self.parts[join], census)
        places = (0, job), (self.cfg.chunks + 1, join)
        return self.remember(key, steps, lambda s: (s.job, s.chunk), places)

    def chunk_moves(self, key: tuple[int, ...]) -> list[Move]:
        job, chunk, at, _ = key
        steps = around.around_chunk(
            self.cfg, at - 1, self.parts[chunk], self.parts[job]
        )
        places = (0, job), (at, chunk)
        return self.remember(key, steps, lambda s: (s.job, s.chunk), places)

    def worker_moves(self, key: tuple[int, ...]) -> list[Move]:
        job, chunk, own, target, at, census = key
        me, parts = at - self.cfg.chunks - 1, self.parts
        steps = worker.steps(
            turn.At(
                self.cfg, me, parts[own], target - 1, parts[chunk], parts[job], census
            )
        )
        named = (s._replace(label=f"worker {me} {s.label}") for s in steps)
        places = (0, job), (target, chunk), (at, own)
        return self.remember(key, named, lambda s: (s.job, s.chunk, s.worker), places)

    def remember(
        self,
        key: tuple[int, ...],
        steps: Iterable[Step],
        parts: Callable[[Step], tuple[Any, ...]],
        places: tuple[tuple[int, int], ...],
    ) -> list[Move]:
        found: list[Move] = []
        for step in steps:
            new = zip(places, map(self.number, parts(step)), strict=True)
            changed = tuple((at, part) for (at, old), part in new if part != old)
            if changed:
                found.append((changed, step.label, step.fault, step.broken))
        self.moves[key] = found
        return found

    def quiet(self, state: State) -> bool:
        """Whether the job has ended, nobody is at work and no message lies about."""
        n, parts = self.cfg.chunks, self.parts
        return (
            parts[state[0]].st in JOB_ENDED
            and not any(parts[w].pc for w in state[n + 2 :])
            and not any(any(parts[c].queue) for c in state[1 : n + 2])
        )

    def left_behind(self, state: State) -> bool:
        job = self.parts[state[0]].st
        if job not in JOB_ENDED:
            return False
        census = 0
        for part in state[1 : self.cfg.chunks + 1]:
            census |= self.sees[part]
        absent = census & SEES_ABSENT and job != Js.CANCELLED
        return bool(census & SEES_OPEN or absent)


def seen(chunk: Chunk) -> int:
    """What the census sees of a chunk."""
    if chunk.st == St.ABSENT:
        return SEES_ABSENT | SEES_NO_RESULT
    open_ = chunk.st in OPEN or chunk.st not in ENDED
    return open_ * SEES_OPEN | (chunk.st != St.SUCCEEDED) * SEES_NO_RESULT


def explore(cfg: Config, limit: int, expect: str = "") -> Found:
    """Look at every state, up to a limit; stop early at an expected violation."""
    space = Space(cfg)
    start = space.start()
    order, index = [start], {start: 0}
    parent, source, target = array("l", [-1]), array("l"), array("l")
    broken: dict[str, list[str]] = {}
    here = 0
    while here < len(order) and len(order) < limit:
        state = order[here]
        for changed, label, fault, breaks in space.after(state):
            new = list(state)
            for at, part in changed:
                new[at] = part
            key = tuple(new)
            there = index.get(key)
            if there is None:
                there = index[key] = len(order)
                order.append(key)
                parent.append(here)
                if LEFT_BEHIND not in broken and space.left_behind(key):
                    broken[LEFT_BEHIND] = trace(space, order, parent, there)
            if breaks and breaks not in broken:
                broken[breaks] = [*trace(space, order, parent, here), label]
            if not fault:
                source.append(here)
                target.append(there)
        here += 1
        if expect and expect in broken:
            break
    complete = here == len(order)
    if complete and (stuck := first_stuck(space, order, source, target)) is not None:
        broken[STUCK] = trace(space, order, parent, stuck)
    return Found(len(order), complete, broken)


def first_stuck(
    space: Space, order: list[State], source: array[int], target: array[int]
) -> int | None:
    """Return the first state from which no quiet end can be reached without faults."""
    good = bytearray(map(space.quiet, order))
    changed = True
    while changed:
        changed = False
        for here, there in zip(reversed(source), reversed(target), strict=True):
            if good[there] and not good[here]:
                good[here] = changed = True
    return good.index(0) if 0 in good else None


def trace(space: Space, order: list[State], parent: array[int], at: int) -> list[str]:
    """Name the actions that lead to a state."""
    labels: list[str] = []
    while (before := parent[at]) >= 0:
        for changed, label, _, _ in space.after(order[before]):
            new = list(order[before])
            for place, part in changed:
                new[place] = part
            if tuple(new) == order[at]:
                labels.append(label)
                break
        at = before
    return labels[::-1]
