"""One turn of a chunk: who gives way does it at no cost to the chunk."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from piecework.claim import Absent, Cancelling, Ended, Held, Spent
from piecework.model import Chunk
from piecework.outcome import Cancelled, Completed
from piecework.ports import ClaimLostError
from piecework.queue import Message
from tests.unit.piecework.fakes import NOW, Log, Lowest
from tests.unit.piecework.store.tables import REF, claim
from workers import executor
from workers.executor import UNKNOWN_S, End, Turn, execute, refused

TURN = Turn(REF, 2, 3, "receipt")
JOB: Any = SimpleNamespace(ref=REF.of, pipeline="review")


@dataclass
class World:
    """A station whose claims answer as they are told."""

    answers: list[Any] = field(default_factory=list)
    said: list[tuple[Any, ...]] = field(default_factory=list)
    pipelines: dict[str, Any] = field(default_factory=lambda: {"review": "pipeline"})
    log: Any = field(default_factory=Log)
    rng: Random = field(default_factory=Lowest)

    rt = property(lambda self: self)
    work = claims = heart = table = rt

    def clock(self) -> float:
        return NOW

    async def acquire(self, *_: Any, gen: int, deliveries: int) -> Any:
        self.said.append(("acquire", gen, deliveries))
        return self.answers.pop(0)

    async def acquire_spent(self, *_: Any, gen: int, deliveries: int) -> Any:
        self.said.append(("acquire spent", gen, deliveries))
        return self.answers.pop(0)

    async def hide(self, receipts: list[str], seconds: float) -> None:
        self.said.append(("hide", *receipts, seconds))

    async def send(self, messages: list[Message], *, delay_s: float) -> None:
        self.said.append(("send", *messages, delay_s))

    async def note_unknown_pipeline(self, job: Any) -> None:
        self.said.append(("unknown", job.pipeline))

    @asynccontextmanager
    async def hold(self, *_: Any) -> AsyncIterator[Any]:
        yield SimpleNamespace(reason=None)


def world(*answers: Any) -> Any:
    return World(list(answers))


def chunk(gen: int) -> Chunk:
    return Chunk.read(REF, {"status": "SUCCEEDED", "gen": gen})


@pytest.fixture
def came_to(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Say what the work comes to: its outcome, and the wait until its next turn."""

    def tell(outcome: Any, wait: float | None) -> None:
        async def undertake(*_: Any) -> Any:
            return SimpleNamespace(outcome=outcome)

        async def settle(*_: Any) -> float | None:
            if outcome is None:
                raise ClaimLostError
            return wait

        monkeypatch.setattr(executor, "undertake", undertake)
        monkeypatch.setattr(executor, "settle", settle)

    return tell


@pytest.mark.parametrize(
    ("answer", "end", "hidden"),
    [
        (Ended(chunk(2)), End.COUNT, []),
        (Ended(chunk(3)), End.DROP, []),
        (Held(7.0), End.LEFT, [("hide", "receipt", 7.0)]),
        (Absent(), End.ORPHAN, []),
        (Spent(), End.LEFT, [("hide", "receipt", UNKNOWN_S)]),
    ],
)
async def test_a_loser_does_with_its_message_what_the_record_says(
    answer: Any, end: End, hidden: Any
) -> None:
    here = world()
    assert end is await refused(answer, TURN, here)
    assert hidden == here.said


async def test_a_loser_cancels_what_nobody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    here, cancelled = world(), []

    async def cancel(_: Any, found: Chunk, now: float) -> None:
        cancelled.append((found.gen, now))

    monkeypatch.setattr(executor, "cancel_unclaimed", cancel)
    assert await refused(Cancelling(chunk(2)), TURN, here) is End.LEFT
    assert cancelled == [(2, NOW)]
    assert here.said == [("hide", "receipt", 0.0)]


async def test_a_pipeline_that_is_not_here_is_left_to_others() -> None:
    here = world()
    here.pipelines = {}
    assert await execute(TURN, JOB, here) is End.LEFT
    assert here.said == [("unknown", "review"), ("hide", "receipt", UNKNOWN_S)]


async def test_spent_attempts_are_claimed_once_more_to_be_wound_up(
    came_to: Any,
) -> None:
    came_to(Completed("1"), None)
    here = world(Spent(), claim(gen=2))
    assert await execute(TURN, JOB, here) is End.COUNT
    assert here.said == [("acquire", 2, 3), ("acquire spent", 2, 3)]


async def test_a_refused_claim_does_no_work() -> None:
    here = world(Held(7.0))
    assert await execute(TURN, JOB, here) is End.LEFT
    assert here.said == [("acquire", 2, 3), ("hide", "receipt", 7.0)]


@pytest.mark.parametrize(
    ("outcome", "wait", "end", "done"),
    [
        (Completed("1"), None, End.COUNT, []),
        (Cancelled("first"), None, End.CANCELLED, []),
        (Completed("1"), 0.0, End.LEFT, [("hide", "receipt", 0.0)]),
        (Completed("1"), 5.0, End.LEFT, [("hide", "receipt", 5.0)]),
        (None, None, End.LEFT, []),
    ],
)
async def test_a_turn_ends_as_its_claim_did(
    came_to: Any, outcome: Any, wait: float | None, end: End, done: Any
) -> None:
    came_to(outcome, wait)
    here = world(claim(gen=2))
    assert end is await execute(TURN, JOB, here)
    assert done == here.said[1:]


async def test_a_turn_without_a_message_sends_one_for_the_next(came_to: Any) -> None:
    came_to(Completed("1"), 5.0)
    here = world(claim(gen=2))
    assert await execute(Turn(REF, 2), JOB, here) is End.LEFT
    assert here.said[1:] == [("send", Message.about(REF, 2), 5.0)]
