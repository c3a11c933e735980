"""The calls of one claim that batches answer: what they wait for, what they asked.

A call that a batch may answer sends nothing. It is held until its stage can make no
other progress. Then the chunk waits without a worker: all its held calls become
requests, in the write with which the wait begins. The next claim takes the answers.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from piecework.calls.call import Call
from piecework.domain.batch import Asked, Request, RequestRow, custom_id
from piecework.domain.budget import NOTHING
from piecework.domain.outcome import Batching
from piecework.resilience.batching import (
    GRACE_S,
    Answer,
    Ask,
    Step,
    Take,
    WaitOn,
    next_step,
)

if TYPE_CHECKING:
    from piecework.calls.shared_budget import Reservation
    from piecework.dependency import Dependency

#: Calls of one request, so that its row stays small.
MOST_ROWS: Final = 1_000
#: Bytes of one request: a worker holds those of its claims until they wait.
MOST_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Held:
    """A call that is held until its stage makes no other progress.

    Attributes:
        body: The provider's request as JSON; empty: it is asked for already.
        size: The bytes that it adds to a batch.
    """

    call: Call
    step: Ask | WaitOn
    body: bytes = b""
    size: int = 0
    reservation: Reservation | None = None


@dataclass(slots=True)
class BatchedCalls:
    """The calls of one claim in the batch lane.

    Attributes:
        gen: The generation of the chunk.
        models: The models that the claim asks, by their key.
    """

    gen: int
    clock: Callable[[], float]
    answers: Mapping[str, Answer] = field(default_factory=dict)
    models: dict[str, Dependency] = field(default_factory=dict)
    _asked: dict[str, Asked] = field(default_factory=dict)
    _held: dict[str, Held] = field(default_factory=dict)
    _reserved: list[Reservation] = field(default_factory=list)

    def load(
        self, answers: Mapping[str, Answer], requests: Sequence[RequestRow]
    ) -> None:
        """Load what batches have answered, and what earlier claims asked for."""
        self.answers = answers
        for row in sorted(requests, key=lambda row: (row.fence, row.part)):
            self._asked |= {each: row.of(each) for each in row.ids}

    def has(self, call: Call) -> bool:
        """Return whether an earlier claim has asked for a call."""
        return bool(self._asked) and custom_id(call.key) in self._asked

    def is_open(self, call: Call) -> bool:
        """Return whether no collector has closed the request of a call."""
        last = self._asked.get(custom_id(call.key))
        return last is not None and last.is_open

    def step(self, call: Call, refused: int) -> Step:
        """Return what a call does now; `refused`: as `next_step` has it."""
        name = custom_id(call.key)
        last = self._asked.get(name)
        if last is not None and last.is_open and call.dependency.batch:
            self._key_of(call.dependency)  # a collector is needed to close it
        return next_step(
            call.dependency.lane,
            self.answers.get(name),
            last,
            refused=refused,
            gen=self.gen,
            now=self.clock(),
        )

    @property
    def is_holding(self) -> bool:
        """Whether a call is held: its stage may give up its worker."""
        return bool(self._held)

    @contextmanager
    def holding(self, held: Held) -> Iterator[None]:
        """Hold a call; unless its chunk then waits, its reservation is given back."""
        self._held[held.call.key] = held
        if held.reservation is not None:
            self._reserved.append(held.reservation)
        try:
            yield
        finally:
            del self._held[held.call.key]

    def outcome(self) -> Batching:
        """Return the wait of the chunk for all held calls."""
        groups = defaultdict[tuple[str, float, int], list[Held]](list)
        until = list[float]()
        for held in self._held.values():
            match held.step:
                case WaitOn(moment):
                    until.append(moment)
                case Ask(since, tries):
                    key = self._key_of(held.call.dependency)
                    # What asks for the second time has waited already.
                    groups[key, since if tries > 1 else 0.0, tries].append(held)
        requests = [part for some in groups.values() for part in parts_of(some)]
        until += [each.due for each in requests]
        return Batching(min(until), requests)

    def _key_of(self, dependency: Dependency) -> str:
        key = dependency.batch.key if dependency.batch else ""
        self.models[key] = dependency
        return key

    def note_settled(self) -> None:
        """Count what the requests have reserved as spent: their chunk waits now."""
        for each in self._reserved:
            each.correct(each.estimate)
        self._reserved.clear()

    def give_back(self) -> None:
        """Give back what was reserved for requests that were not made."""
        for each in self._reserved:
            each.correct(NOTHING)
        self._reserved.clear()


def parts_of(held: Sequence[Held]) -> Iterator[Request]:
    """Yield the requests for calls of one model that asked as often."""
    part, size = list[Held](), 0
    for each in held:
        if part and (len(part) >= MOST_ROWS or size + each.size > MOST_BYTES):
            yield request_for(part)
            part, size = [], 0
        part.append(each)
        size += each.size
    if part:
        yield request_for(part)


def request_for(held: Sequence[Held]) -> Request:
    """Return the request for some calls of one model."""
    dependency = held[0].call.dependency
    steps = [each.step for each in held]
    since = min(step.since for step in steps if isinstance(step, Ask))
    until = since + dependency.lane.within
    total = NOTHING
    for each in held:
        if each.reservation is not None:
            total += each.reservation.estimate
    return Request(
        key=dependency.batch.key if dependency.batch else "",
        model=dependency.name,
        since=since,
        until=until,
        due=until + GRACE_S,
        tries=max(step.tries for step in steps if isinstance(step, Ask)),
        bodies={custom_id(each.call.key): each.body for each in held},
        size=sum(each.size for each in held),
        held=total,
    )


def said_of(take: Take) -> dict[str, Any]:
    """Return what a batch has said of a call, as its attempt reads it."""
    if isinstance(take.said, str):
        return {"answer": json.loads(take.said)}
    return {"error": dict(take.said)}
