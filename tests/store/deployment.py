"""A runtime on the store of a test: its queues and bucket are kept in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from piecework.aws.queue import Delivery, Message
from piecework.reconciler.liveness import LeaseObserver
from piecework.reconciler.pass_state import PassContext
from piecework.runtime import Runtime
from tests.store.conftest import SETTINGS, Store, bucket
from tests.unit.piecework.fakes import Log

LOG: Any = Log()


@dataclass
class Sent:
    """A queue that keeps what it is sent, and hands out what lies in it."""

    messages: list[Message] = field(default_factory=list)
    lying: list[Delivery] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    takes: bool = True
    queues: list[str] = field(default_factory=list)

    async def named(self, queue: str) -> Sent:
        self.queues.append(queue)
        return self

    async def send(
        self, messages: list[Message], *, to: str, delay_s: float = 0.0
    ) -> int:
        self.messages += messages
        self.queues.append(to)
        return len(messages)

    async def send_back(self, body: str) -> bool:
        self.bodies.append(body)
        return self.takes

    async def receive(self, most: int, *, wait_s: int, hide_s: float) -> list[Delivery]:
        taken, self.lying = self.lying[:most], self.lying[most:]
        return taken

    async def delete(self, receipts: list[str]) -> None:
        self.deleted += receipts


class Seen(LeaseObserver):
    """Has seen every chunk unchanged for so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def unchanged_for(self, *_: Any) -> float:
        return self.seconds


def runtime(store: Store) -> Runtime:
    work: Any = Sent()
    dead: Any = Sent()
    nothing: Any = None
    return Runtime(
        settings=SETTINGS,
        endpoint=nothing,
        table=store.table,
        dead_letters=store.dead_letter_table,
        work=work,
        dead_letter_queue=dead,
        renewal_table=store.table,
        renewal_queues=work,
        objects=bucket(),
        jobs=store.jobs,
        transitions=store.transitions,
        tallies=store.tallies,
        clock=store.clock,
        rng=Random(1),
    )


def pass_context(store: Store, seen: float = 0.0) -> PassContext:
    return PassContext(runtime(store), leases=Seen(seen))


def sent(rt: Runtime) -> list[Message]:
    work: Any = rt.work
    return work.messages  # type: ignore[no-any-return]
