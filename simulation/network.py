"""The way from a process to AWS and back: where requests are late, lost and repeated.

What a process has sent is on its way whatever becomes of the process. Around it stands
what the SDK does: a few tries, and an exception in the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    ReadTimeoutError,
)

from simulation.cloud.s3 import pages
from simulation.loop import Process

if TYPE_CHECKING:
    from simulation.world import World

#: Tries of the SDK, as `piecework.runtime.RETRIES` asks for.
TRIES = 4
#: What the SDK tries again by itself.
RETRIED = {
    "ThrottlingException",
    "ProvisionedThroughputExceededException",
    "RequestThrottled",
    "SlowDown",
    "InternalServerError",
    "InternalFailure",
    "InternalError",
}
#: Seconds that a request, or its answer, is usually on its way, at most.
HOP_S = 0.02
#: Seconds that a slow one is.
SLOW_S = 6.0
#: How many times the client's patience a late one is on its way besides, at most: it
#: is carried out when nobody counts on it any more.
LATEST = 6
THROTTLED = {
    "dynamodb": "ProvisionedThroughputExceededException",
    "sqs": "RequestThrottled",
    "s3": "SlowDown",
}
BROKEN = {"dynamodb": "InternalServerError", "sqs": "InternalFailure"}
READS = {"get_item", "query", "scan"}
WRITES = {"update_item", "put_item", "transact_write_items"}


class Service(Protocol):
    """A model of a service."""

    def call(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Do what is asked for, at once."""
        ...


@dataclass(eq=False)
class Client:
    """What the real code takes for a client of aiobotocore's."""

    world: World
    name: str
    service: Service
    process: Process
    timeout_s: float

    def __getattr__(self, operation: str) -> Any:
        """Return an operation of the service, as an async method; once is enough."""
        if operation.startswith("_"):
            raise AttributeError(operation)
        method = partial(self.send, operation)
        setattr(self, operation, method)
        return method

    def get_paginator(self, operation: str) -> Any:
        """Return the pages of a listing."""
        send = partial(self.send, operation)
        return SimpleNamespace(paginate=partial(pages, send))

    async def send(self, operation: str, **request: Any) -> Any:
        """Send a request, again as the SDK would."""
        body: Any = request.get("Body")
        if hasattr(body, "read"):  # the SDK rewinds a file before it tries again
            request["Body"] = body.read()
        for attempt in range(TRIES):
            last = attempt == TRIES - 1
            try:
                return await self.attempt(operation, request)
            except ClientError as error:
                if last or error.response["Error"]["Code"] not in RETRIED:
                    raise
            except (ConnectionClosedError, EndpointConnectionError, ReadTimeoutError):
                if last:
                    raise
            await asyncio.sleep(self.world.rng.random() * 2.0**attempt)
        raise AssertionError(operation)

    async def attempt(self, operation: str, request: Mapping[str, Any]) -> Any:
        """Send a request once, through whatever befalls it."""
        world = self.world
        fault = world.faults.of_request()
        world.note(self.process, operation, fault)
        refuse(fault, self.name, operation)
        wait_s = float(request.get("WaitTimeSeconds", 0))
        timeout_s = self.timeout_s + wait_s
        away = world.rng.random() * (SLOW_S if fault == "request.slow" else HOP_S)
        if fault == "request.late":
            away = timeout_s * (1 + LATEST * world.rng.random() ** 2)
        loop = world.loop
        answer = loop.create_future()
        exchange = Exchange(self, operation, request, answer, fault, wait_s)
        world.on_exchange("asked", exchange)
        if not self.process.dead:
            loop.call_later(away, exchange.arrive, context=world.context)
        patience = None  # none is needed where the answer is sure to be in time
        if wait_s or away + HOP_S >= timeout_s:
            patience = loop.call_later(timeout_s, exchange.give_up)
        try:
            reply = await answer
        finally:
            if patience is not None:
                patience.cancel()
            exchange.over = True
            world.on_exchange("answered", exchange)
        if exchange.error is not None:
            raise exchange.error
        return reply


def refuse(fault: str | None, service: str, operation: str) -> None:
    """Raise what a request is refused with before anything was done."""
    if fault == "request.unreachable":
        raise EndpointConnectionError(endpoint_url=service)
    code = None
    if fault == "request.throttled":
        code = THROTTLED[service]
    elif fault == "request.server_error":
        code = BROKEN.get(service, "InternalError")
    elif fault == "request.conflict" and operation in WRITES:
        code = "TransactionConflictException"
    if code == "TransactionConflictException" and operation == "transact_write_items":
        response: Any = {
            "Error": {"Code": "TransactionCanceledException", "Message": "conflict"},
            "CancellationReasons": [{"Code": "TransactionConflict"}],
        }
        raise ClientError(response, operation)
    if code is not None:
        status = 500 if fault == "request.server_error" else 400
        answered: Any = {
            "Error": {"Code": code, "Message": fault},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }
        raise ClientError(answered, operation)


@dataclass(slots=True)
class Exchange:
    """A request that has been sent: it is carried out, whoever still waits for it."""

    client: Client
    operation: str
    request: Mapping[str, Any]
    answer: asyncio.Future[Any]
    fault: str | None
    wait_s: float
    over: bool = False
    error: Exception | None = None
    until: float = 0.0

    def arrive(self) -> None:
        """Reach the service."""
        self.until = self.client.world.loop.moment + self.wait_s
        self.carry_out()

    def carry_out(self) -> None:
        """Do what is asked for; a long poll that finds nothing stays."""
        world = self.client.world
        if self.operation in READS and not self.request.get("ConsistentRead"):
            message = f"{self.operation} may be stale, and nothing here allows for it"
            raise AssertionError(message)
        world.sender = self.client.process
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
        """Send the answer on its way back."""
        world = self.client.world
        world.on_exchange("applied", self)
        delay = world.rng.random() * HOP_S
        world.loop.call_later(delay, self.answered, reply, error, context=world.context)

    def answered(self, reply: dict[str, Any] | None, error: ClientError | None) -> None:
        """Reach the process, unless the answer was lost or nobody waits for it."""
        if self.over or self.answer.done():
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
        """Wait no longer, even if an answer is there that was not yet looked at."""
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
class Polls:
    """The long polls that stay open, by queue."""

    world: World
    _waiting: dict[str, list[Exchange]] = field(default_factory=dict)

    def wait(self, exchange: Exchange, url: str, until: float) -> None:
        """Keep a poll open until there is a message, or its time is over."""
        self._waiting.setdefault(url, []).append(exchange)
        loop = self.world.loop
        next_at = self.world.sqs.next_at(url)
        at = until if next_at is None else min(until, self.world.at(next_at))
        loop.call_at(
            max(at, loop.moment), self.look, exchange, url, context=self.world.context
        )

    def arrived(self, url: str) -> None:
        """Let the first open poll of a queue have a look."""
        waiting = self._waiting.get(url)
        if waiting:
            self.look(waiting[0], url)

    def look(self, exchange: Exchange, url: str) -> None:
        """Let a poll have another look."""
        waiting = self._waiting.get(url, [])
        if exchange in waiting:
            waiting.remove(exchange)
            exchange.carry_out()


def open_client(
    world: World, name: str, service: Service, process: Process, timeout_s: float = 10.0
) -> Any:
    """Return a client of a service for a process."""
    return Client(world, name, service, process, timeout_s)
