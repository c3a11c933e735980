"""A chunk that waits long leaves the queue, and is sent again when it is due."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from math import inf
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import Context, Pipeline, Stage, TransientError
from piecework.domain import outcome
from piecework.domain.states import JobStatus
from tests.unit.orchestrator.simulated import Simulated, simulate

HOUR_S = 3_600.0


class Wait(BaseModel):
    """A chunk, and the seconds that its provider requests."""

    seconds: float


async def wait(ctx: Context[Wait]) -> int:
    """Be refused in the first attempt."""
    if ctx.attempt == 1:
        raise TransientError("later", retry_after=ctx.payload.seconds)
    return ctx.attempt


waiting = Pipeline(name="waiting", payload=Wait, stages=[Stage(wait)])


@dataclass(slots=True)
class Traffic:
    """Counts requests, and kills the first process that sends a given request.

    Attributes:
        counts: The requests by operation, and the messages received by queue.
    """

    here: Simulated
    kill_before: str = ""
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.here.world.on_exchange = self.on_exchange

    def on_exchange(self, when: str, exchange: Any) -> None:
        operation = exchange.operation
        if when == "asked":
            self.counts[operation] += 1
            if operation == self.kill_before:
                self.kill_before = ""
                self.here.world.kill(exchange.client.process)
        elif operation == "receive_message" and exchange.answer.done():
            queue = exchange.request["QueueUrl"].rsplit("/")[-1]
            messages = (exchange.answer.result() or {}).get("Messages", [])
            self.counts[f"{queue} messages"] += len(messages)
            self.counts["receives"] += bool(messages)


def run(
    seconds: float, kill_before: str = "", chunks: int = 1
) -> tuple[Counter[str], float]:
    """Run a job whose chunks wait; return its traffic and how late it ended."""

    async def act(here: Simulated) -> tuple[Counter[str], float]:
        # Chunks share a batch if they end together: a drawn time of each transaction
        # would blur the counts.
        here.world.dynamodb.conflicts = None
        await here.submit(waiting, [Wait(seconds=seconds)] * chunks)
        traffic = Traffic(here, kill_before)
        here.fleet.worker(reconcile=False)
        here.fleet.reconciler()
        due_at = here.world.loop.time() + seconds
        await asyncio.sleep(seconds)
        job = await here.ended()
        assert job.status is JobStatus.SUCCEEDED
        assert [2] * chunks == [chunk.attempts for chunk in await here.chunks()]
        return traffic.counts, here.world.loop.time() - due_at

    return simulate(act, [waiting], workers=0, max_attempts=3, reconcile_s=60.0)


def messages(counts: Counter[str]) -> tuple[int, int]:
    """Return the messages received from the work queue and the dead-letter queue."""
    name = "piecework-local-work"
    return counts[f"{name} messages"], counts[f"{name}-dlq messages"]


def test_a_wait_of_half_a_day_needs_two_messages_and_no_dead_letter_queue() -> None:
    counts, late = run(13 * HOUR_S)
    assert messages(counts) == (2, 0)
    assert 0 <= late <= 130.0


@pytest.mark.parametrize("request_lost", ["delete_message_batch", "send_message_batch"])
def test_a_long_wait_ends_though_a_process_dies_beside_it(request_lost: str) -> None:
    counts, late = run(HOUR_S, kill_before=request_lost)
    received, dead = messages(counts)
    assert received <= 4
    assert dead == 0
    assert late <= 1_200.0


def test_a_wait_of_minutes_stays_in_the_queue_and_ends_on_time() -> None:
    counts, late = run(600.0)
    assert messages(counts) == (2, 0)
    assert late <= 10.0


#: Requests that a wait may cause; those of the reconciler's reads are not among them.
CAUSED = (
    "receives",
    "update_item",
    "transact_write_items",
    "send_message_batch",
    "delete_message_batch",
    "change_message_visibility_batch",
)


#: Each chunk needs two messages. How many of them share a receive, a send, a deletion
#: or a tally depends on the drawn latencies: with seeds 1 to 5 the sums are 8.0 to 8.2
#: in the first case, and 8.2 to 8.6 in the last.
@pytest.mark.parametrize(
    ("seconds", "longest_in_queue_s", "least", "most"),
    [
        (600.0, inf, 7.5, 8.2),
        (600.0, 0.0, 7.9, 8.5),
        (13 * HOUR_S, inf, 10.1, 10.9),
        (13 * HOUR_S, 0.0, 7.9, 8.6),
    ],
)
def test_leaving_the_queue_costs_fewer_requests_a_chunk_than_staying(
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    longest_in_queue_s: float,
    least: float,
    most: float,
) -> None:
    monkeypatch.setattr(outcome, "MAX_WAIT_IN_QUEUE_S", longest_in_queue_s)
    counts, _ = run(seconds, chunks=10)
    assert least <= sum(counts[name] for name in CAUSED) / 10 <= most
