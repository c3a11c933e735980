"""A runtime on the models of a test: its tables, its queues and its bucket."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from piecework.aws.queue import Message
from piecework.reconciler.liveness import LeaseObserver
from piecework.reconciler.pass_state import PassContext
from piecework.runtime import Runtime
from tests.store.conftest import Store
from tests.unit.piecework.fakes import Log

LOG: Any = Log()
#: The queue of some pipelines.
GPU = "gpu"


class Seen(LeaseObserver):
    """Has seen every chunk unchanged for so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def unchanged_for(self, *_: Any) -> float:
        return self.seconds


def runtime(store: Store) -> Runtime:
    store.aws.create_queues([GPU])
    return replace(
        store.aws.runtime("worker", store.clock),
        table=store.table,
        dead_letters=store.dead_letter_table,
        renewal_table=store.table,
        jobs=store.jobs,
        transitions=store.transitions,
        tallies=store.tallies,
    )


def pass_context(store: Store, seen: float = 0.0) -> PassContext:
    return PassContext(runtime(store), leases=Seen(seen))


def bodies(rt: Runtime, queue: str) -> list[str]:
    """Return what a queue has, in the order in which it came."""
    sqs: Any = rt.dead_letter_queue.client
    messages = sqs.service._queues[queue].messages.values()
    return [message.body for message in sorted(messages, key=lambda m: m.place)]


def sent(rt: Runtime, queue: str = "") -> list[Message]:
    """Return the messages of a work queue."""
    texts = bodies(rt, rt.settings.queue_name(queue))
    return [Message.model_validate_json(text) for text in texts]
