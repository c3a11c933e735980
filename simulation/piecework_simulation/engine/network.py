"""Carry requests from a process to AWS and back; they may be late, lost or repeated.

AWS executes a request even if its sender dies. The client retries like the SDK: a few
attempts, then an exception.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any, Protocol

from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    ReadTimeoutError,
)

from piecework_simulation.aws.s3 import pages
from piecework_simulation.engine.process import Process
from piecework_simulation.engine.world import World

#: Attempts of the SDK, as `piecework.runtime.RETRIES` configures.
SDK_ATTEMPTS = 4
#: Error codes that the SDK itself retries.
SDK_RETRIES = {
    "ThrottlingException",
    "ProvisionedThroughputExceededException",
    "RequestThrottled",
    "SlowDown",
    "InternalServerError",
    "InternalFailure",
    "InternalError",
}
#: Maximum seconds that a slow request is in transit.
SLOW_S = 6.0
#: Maximum transit time of a late request, in multiples of the client's timeout. It is
#: executed long after the client gave up.
MAX_LATE_FACTOR = 6
THROTTLED = {
    "dynamodb": "ProvisionedThroughputExceededException",
    "sqs": "RequestThrottled",
    "s3": "SlowDown",
}
BROKEN = {"dynamodb": "InternalServerError", "sqs": "InternalFailure"}
DENIED = {"s3": "AccessDenied"}
WRITES = {"update_item", "put_item", "delete_item", "transact_write_items"}


class Service(Protocol):
    """A model of a service."""

    def call(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Execute a request immediately."""
        ...


def open_client(
    world: World, name: str, service: Service, process: Process, timeout_s: float = 10.0
) -> Any:
    """Return a client of a service for a process."""
    return Client(world, name, service, process, timeout_s)


@dataclass(eq=False)
class Client:
    """The replacement for an aiobotocore client."""

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
        """Send a request, with the SDK's retries."""
        body: Any = request.get("Body")
        if hasattr(body, "read"):  # the SDK rewinds a file before it retries
            request["Body"] = body.read()
        for attempt in range(SDK_ATTEMPTS):
            last = attempt == SDK_ATTEMPTS - 1
            try:
                return await self.attempt(operation, request)
            except ClientError as error:
                if last or error.response["Error"]["Code"] not in SDK_RETRIES:
                    raise
            except (ConnectionClosedError, EndpointConnectionError, ReadTimeoutError):
                if last:
                    raise
            await asyncio.sleep(self.world.rng.random() * 2.0**attempt)
        raise AssertionError(operation)

    async def attempt(self, operation: str, request: Mapping[str, Any]) -> Any:
        """Send a request once, with the drawn fault."""
        world = self.world
        fault = world.faults.draw_for_request()
        if self.name in world.faults.denied:
            fault = "request.denied"
        world.note(self.process, operation, fault)
        refuse(fault, self.name, operation)
        wait_s = float(request.get("WaitTimeSeconds", 0))
        timeout_s = self.timeout_s + wait_s
        delay_s = world.rng.random() * (SLOW_S if fault == "request.slow" else HOP_S)
        if fault == "request.late":
            delay_s = timeout_s * (1 + MAX_LATE_FACTOR * world.rng.random() ** 2)
        loop = world.loop
        answer = loop.create_future()
        sent = (operation, request, answer, fault, wait_s, loop.moment)
        exchange = Exchange(self, *sent)
        world.on_exchange("asked", exchange)
        if not self.process.dead:
            loop.call_later(delay_s, exchange.deliver_request, context=world.context)
        timeout = None  # not needed if the reply always arrives in time
        if wait_s or delay_s + HOP_S >= timeout_s:
            timeout = loop.call_later(timeout_s, exchange.give_up)
        try:
            reply = await answer
        finally:
            if timeout is not None:
                timeout.cancel()
            exchange.closed = True
            world.on_exchange("answered", exchange)
        if exchange.error is not None:
            raise exchange.error
        return reply


def refuse(fault: str | None, service: str, operation: str) -> None:
    """Raise the error of a request that AWS refuses before it executes it."""
    if fault == "request.unreachable":
        raise EndpointConnectionError(endpoint_url=service)
    code = None
    if fault == "request.throttled":
        code = THROTTLED[service]
    elif fault == "request.server_error":
        code = BROKEN.get(service, "InternalError")
    elif fault == "request.denied":
        code = DENIED.get(service, "AccessDeniedException")
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
        if fault == "request.denied" and service != "dynamodb":
            status = 403
        response_body: Any = {
            "Error": {"Code": code, "Message": fault},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }
        raise ClientError(response_body, operation)


# ── request to AWS in transit ─────────────────────────────────────────────────

#: Maximum seconds that a request, or its reply, is normally in transit.
HOP_S = 0.02
READS = {"get_item", "batch_get_item", "query", "scan"}


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
        asked = self.request.get("RequestItems", {"": self.request}).values()
        if self.operation in READS and not all(e.get("ConsistentRead") for e in asked):
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
        if self.client.service is world.dynamodb:
            delay += world.dynamodb.took_s
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
