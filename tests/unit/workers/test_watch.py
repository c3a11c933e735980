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
        self.cancelled = 0

    def stop(self, asked: CancelRequest) -> None:
        self.cancelled += asked == CancelRequest("then", undo=True)


@pytest.mark.parametrize(
    ("status", "cancelled"),
    [(JobStatus.CANCELLING, 1), (JobStatus.RUNNING, 0), (None, 0)],
)
async def test_the_chunks_of_a_cancelled_job_are_let_go(
    status: JobStatus | None, cancelled: int
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
    assert [hold.cancelled for hold in holds] == [cancelled, cancelled]
    assert asked == [REF.of]
