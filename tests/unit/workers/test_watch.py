"""A look at the jobs in hand lets go of those that are cancelled, and of no other."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from piecework.circuits import Circuits
from piecework.model import JobStatus
from piecework.ports import CancelRequest
from piecework.pulse import Pulse
from tests.unit.piecework.fakes import Log
from tests.unit.piecework.store.tables import REF
from workers.watch import Watch


class Held:
    def __init__(self) -> None:
        self.claim = SimpleNamespace(ref=REF)
        self.stopped: list[CancelRequest | None] = []

    def stop(self, asked: CancelRequest) -> None:
        self.stopped.append(asked)


@pytest.mark.parametrize(
    ("status", "stopped"),
    [
        (JobStatus.CANCELLING, [CancelRequest("then", undo=True)]),
        (JobStatus.RUNNING, []),
        (None, []),
    ],
)
async def test_the_chunks_of_a_cancelled_job_are_let_go(
    status: JobStatus | None, stopped: list[CancelRequest]
) -> None:
    asked: list[Any] = []

    async def read(ref: Any) -> Any:
        asked.append(ref)
        said = {"status": status, "cancelled_at": "then", "undoes": True}
        return None if status is None else SimpleNamespace(**said)

    holds = [Held(), Held()]
    rt: Any = SimpleNamespace(jobs=SimpleNamespace(read=read))
    heart: Any = SimpleNamespace(holds=dict(enumerate(holds)), pulse=Pulse())
    log: Any = Log()
    circuits = Circuits(lambda: 0.0, Random(1), log)
    await Watch(rt, heart, circuits, log).look()
    assert [hold.stopped for hold in holds] == [stopped, stopped]
    assert asked == [REF.of]


@pytest.mark.parametrize(
    ("in_hand", "untold", "looks"),
    [(False, False, 0), (True, False, 1), (False, True, 1)],
)
async def test_breakers_are_asked_for_when_a_chunk_may_call_or_there_is_news(
    *, in_hand: bool, untold: bool, looks: int
) -> None:
    asked: list[str] = []

    async def read(_: Any) -> None:
        asked.append("job")

    async def look() -> None:
        asked.append("breakers")

    rt: Any = SimpleNamespace(jobs=SimpleNamespace(read=read))
    holds = {"token": Held()} if in_hand else {}
    heart: Any = SimpleNamespace(holds=holds, pulse=Pulse())
    circuits: Any = SimpleNamespace(untold=untold, look=look)
    await Watch(rt, heart, circuits, Log()).look()
    assert looks == asked.count("breakers")
