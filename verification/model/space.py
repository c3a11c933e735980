"""Model the states of the whole protocol, as numbered parts with cached steps.

A state is a tuple of numbers, one for each part: job, chunks, join, workers. An action
depends on few parts, so it is computed once for each combination of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from verification.model import other_actors, view, worker
from verification.model.state import (
    ENDED,
    HAS_ABSENT,
    HAS_NO_RESULT,
    HAS_OPEN,
    IDLE,
    JOB_ENDED,
    OPEN,
    Chunk,
    Config,
    Effect,
    Job,
    Js,
    St,
    Step,
    sent,
)

State: TypeAlias = tuple[int, ...]
#: The changed parts; a label; whether it is a fault; what it breaks.
Move: TypeAlias = tuple[tuple[tuple[int, int], ...], str, bool, str]
ENDS_AFTER_CHUNKS = "a job ends after its chunks"


@dataclass(slots=True)
class Space:
    """The numbered parts of one configuration's states."""

    cfg: Config
    parts: list[Any] = field(default_factory=list)
    numbers: dict[Any, int] = field(default_factory=dict)
    moves: dict[tuple[int, ...], list[Move]] = field(default_factory=dict)
    bits: dict[int, int] = field(default_factory=dict)

    def number(self, part: Any) -> int:
        key = (type(part), part)
        if key not in self.numbers:
            self.numbers[key] = len(self.parts)
            self.parts.append(part)
            if isinstance(part, Chunk):
                self.bits[self.numbers[key]] = bits_of(part)
        return self.numbers[key]

    def start(self) -> State:
        cfg = self.cfg
        empty = (0,) * cfg.gens
        effects = (Effect(),) * cfg.stages if cfg.effects else ()
        job = Job(deadline=int(cfg.deadline))
        first = Chunk(queue=empty, effects=effects)
        if cfg.submitted:
            job = job._replace(st=Js.RUNNING, opened=1, submitter=0)
            first = sent(first._replace(st=St.PENDING), 1)
        chunk = self.number(first)
        join = self.number(Chunk(queue=empty))
        idle = self.number(IDLE)
        return (self.number(job), *[chunk] * cfg.chunks, join, *[idle] * cfg.workers)

    def after(self, state: State) -> Iterator[tuple[State, str, bool, str]]:
        """Yield each next state: its label, whether it is a fault, what it breaks."""
        for changed, label, fault, broken in self.moved(state):
            new = list(state)
            for at, part in changed:
                new[at] = part
            yield tuple(new), label, fault, broken

    def moved(self, state: State) -> Iterator[Move]:
        """Yield every move from a state."""
        n, job, moves = self.cfg.chunks, state[0], self.moves
        snapshot = 0
        for part in state[1 : n + 1]:
            snapshot |= self.bits[part]
        key: tuple[int, ...] = (job, state[n + 1], snapshot)
        yield from moves.get(key) or self.job_moves(key)
        for at in range(1, n + 2):
            key = (job, state[at], at, -1)
            found = moves.get(key)
            yield from self.chunk_moves(key) if found is None else found
        for at in range(n + 2, len(state)):
            acting = self.parts[state[at]]
            targets = [acting.target + 1] if acting.pc else range(1, n + 2)
            for target in targets:
                key = (job, state[target], state[at], target, at, snapshot)
                found = moves.get(key)
                yield from self.worker_moves(key) if found is None else found

    def job_moves(self, key: tuple[int, ...]) -> list[Move]:
        job, join, snapshot = key
        steps = other_actors.job_steps(
            self.cfg, self.parts[job], self.parts[join], snapshot
        )
        places = (0, job), (self.cfg.chunks + 1, join)
        return self.remember(key, steps, lambda s: (s.job, s.chunk), places)

    def chunk_moves(self, key: tuple[int, ...]) -> list[Move]:
        job, chunk, at, _ = key
        steps = other_actors.chunk_steps(
            self.cfg, at - 1, self.parts[chunk], self.parts[job]
        )
        places = (0, job), (at, chunk)
        return self.remember(key, steps, lambda s: (s.job, s.chunk), places)

    def worker_moves(self, key: tuple[int, ...]) -> list[Move]:
        job, chunk, own, target, at, snapshot = key
        me, parts = at - self.cfg.chunks - 1, self.parts
        steps = worker.steps(
            view.View(
                self.cfg, me, parts[own], target - 1, parts[chunk], parts[job], snapshot
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

    def is_final(self, state: State) -> bool:
        """Return whether the job has ended, without active workers and messages."""
        n, parts = self.cfg.chunks, self.parts
        return (
            parts[state[0]].st in JOB_ENDED
            and not any(parts[w].pc for w in state[n + 2 :])
            and not any(any(parts[c].queue) for c in state[1 : n + 2])
        )

    def wrong(self, state: State) -> str:
        """Return the violations of a state itself."""
        job = self.parts[state[0]].st
        if job not in JOB_ENDED:
            return ""
        snapshot = 0
        for part in state[1 : self.cfg.chunks + 1]:
            snapshot |= self.bits[part]
        return ENDS_AFTER_CHUNKS if snapshot & (HAS_OPEN | HAS_ABSENT) else ""


def bits_of(chunk: Chunk) -> int:
    """Return the bits that a chunk adds to a snapshot."""
    if chunk.st == St.ABSENT:
        return HAS_ABSENT | HAS_NO_RESULT
    open_ = chunk.st in OPEN or chunk.st not in ENDED
    return open_ * HAS_OPEN | (chunk.st != St.SUCCEEDED) * HAS_NO_RESULT
