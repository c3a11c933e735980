from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from piecework.aws.queue import Message
from piecework.domain.chunk import Chunk
from piecework.domain.protocols import CancelRequest
from piecework.domain.refs import JobRef
from piecework.jobs.cancellation import CancelSweep

JOB = JobRef("default", "job-1")


@dataclass
class Sent:
    """A queue that keeps how many messages each request had."""

    sizes: list[int] = field(default_factory=list)

    async def send(self, messages: list[Message], **_: str) -> None:
        self.sizes.append(len(messages))


async def test_chunks_to_compensate_are_sent_in_full_batches() -> None:
    queue = Sent()
    runtime: Any = SimpleNamespace(work=queue)
    cancel_sweep = CancelSweep(runtime, CancelRequest("now", compensate=True))
    for number in range(25):
        item = {"gen": 1, "status": "WAITING", "fence": 1, "attempts": 1}
        await cancel_sweep.dispatch(Chunk.read(JOB.chunk(number), item))
    assert [10, 10] == queue.sizes
    await cancel_sweep.send()
    await cancel_sweep.send()
    assert [10, 10, 5] == queue.sizes
    assert 25 == cancel_sweep.requested
