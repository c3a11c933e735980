"""Model a request to AWS in transit; AWS executes it even if its sender dies."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

if TYPE_CHECKING:
    from simulation.network import Client
    from simulation.world import World

#: Maximum seconds that a request, or its reply, is normally in transit.
HOP_S = 0.02
READS = {"get_item", "query", "scan"}


@dataclass(slots=True)
class Exchange:
    """A request that has been sent."""

    client: Client
    operation: str
    request: Mapping[str, Any]
    answer: asyncio.Future[Any]
    fault: str | None
    wait_s: float
    sent_at: float
    closed: bool = False
    error: Exception | None = None
    until: float = 0.0

    def deliver_request(self) -> None:
        """Reach the service."""
        self.until = self.client.world.loop.moment + self.wait_s
        self.execute()

    def execute(self) -> None:
        """Execute the request; a long poll without a message stays open."""
        world = self.client.world
        if self.operation in READS and not self.request.get("ConsistentRead"):
            message = f"{self.operation} may be stale; use ConsistentRead."
            raise AssertionError(message)
        world.sender, world.sent_at = self.client.process, self.sent_at
        try:
            reply = self.client.service.call(self.operation, self.request)
        except ClientError as error:
            self.reply(None, error)
            return
        finally:
            world.sender = None
        left = self.until - world.loop.moment
        if self.wait_s and "Messages" not in reply and left > 0:
            world.polls.wait(self, str(self.request["QueueUrl"]), self.until)
            return
        self.reply(reply, None)

    def reply(self, reply: dict[str, Any] | None, error: ClientError | None) -> None:
        """Send the reply back to the process."""
        world = self.client.world
        world.on_exchange("applied", self)
        delay = world.rng.random() * HOP_S
        world.loop.call_later(
            delay, self.deliver_reply, reply, error, context=world.context
        )

    def deliver_reply(
        self, reply: dict[str, Any] | None, error: ClientError | None
    ) -> None:
        """Deliver the reply, unless it was lost or the process no longer waits."""
        if self.closed or self.answer.done():
            return
        if self.fault == "request.reply_lost":
            self.fail(ConnectionClosedError(endpoint_url=self.client.name))
        elif error is not None:
            self.fail(error)
        else:
            date = http_date(int(self.client.world.now()))
            headers = {"HTTPHeaders": {"date": date}}
            self.answer.set_result({**(reply or {}), "ResponseMetadata": headers})

    def give_up(self) -> None:
        """Stop waiting, even if a reply has arrived that was not yet read."""
        self.fail(ReadTimeoutError(endpoint_url=self.client.name))

    def fail(self, error: Exception) -> None:
        """Answer with an error."""
        self.error = error
        if not self.answer.done():
            self.answer.set_result(None)


@lru_cache(4096)
def http_date(second: int) -> str:
    """Return a moment as AWS writes it into the head of each answer."""
    return format_datetime(datetime.fromtimestamp(second, UTC), usegmt=True)


@dataclass(slots=True)
class LongPolls:
    """The long polls that stay open, by queue."""

    world: World
    _waiting: dict[str, list[Exchange]] = field(default_factory=dict)

    def wait(self, exchange: Exchange, url: str, until: float) -> None:
        """Keep a poll open until there is a message, or until its time is over."""
        self._waiting.setdefault(url, []).append(exchange)
        loop = self.world.loop
        next_at = self.world.sqs.next_at(url)
        at = until if next_at is None else min(until, self.world.at(next_at))
        loop.call_at(
            max(at, loop.moment),
            self.retry_poll,
            exchange,
            url,
            context=self.world.context,
        )

    def retry_first(self, url: str) -> None:
        """Execute the first open poll of a queue again."""
        waiting = self._waiting.get(url)
        if waiting:
            self.retry_poll(waiting[0], url)

    def retry_poll(self, exchange: Exchange, url: str) -> None:
        """Execute an open poll again."""
        waiting = self._waiting.get(url, [])
        if exchange in waiting:
            waiting.remove(exchange)
            exchange.execute()
