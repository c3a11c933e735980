"""Serve the AWS of a process to the other processes of this machine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Any

from piecework.aws.endpoint import IN_PROCESS
from piecework_orchestrator.embedded.guard import HEALTH, refusal
from piecework_orchestrator.embedded.server import LOOPBACK
from piecework_simulation.aws.sqs_messages import ACCOUNT
from piecework_simulation.aws_server.buckets import XML, Buckets
from piecework_simulation.aws_server.http import (
    Answer,
    Connection,
    Request,
    ok_answer,
    unknown_operation,
)
from piecework_simulation.aws_server.queues import Queues
from piecework_simulation.aws_server.tables import Tables
from piecework_simulation.in_process import InProcessAws

STS = "https://sts.amazonaws.com/doc/2011-06-15/"
CALLER = (
    f'<GetCallerIdentityResponse xmlns="{STS}"><GetCallerIdentityResult>'
    f"<Arn>arn:aws:iam::{ACCOUNT}:root</Arn><UserId>{ACCOUNT}</UserId>"
    f"<Account>{ACCOUNT}</Account></GetCallerIdentityResult>"
    "<ResponseMetadata><RequestId>0</RequestId></ResponseMetadata>"
    "</GetCallerIdentityResponse>"
)


@asynccontextmanager
async def serve_aws(aws: InProcessAws, key: str) -> AsyncIterator[str]:
    """Serve the tables, the queues and the bucket; yield the endpoint.

    Requests must be signed with the access key, as for MiniStack behind its guard.
    """
    loop = asyncio.get_running_loop()
    router = Router(loop, aws, key)
    connections: set[Connection] = set()
    make = partial(Connection, router.serve, connections)
    server = await loop.create_server(make, LOOPBACK, 0)
    try:
        port = server.sockets[0].getsockname()[1]
        yield f"http://{LOOPBACK}:{port}"
    finally:
        server.close()
        for connection in list(connections):
            connection.close()


class Router:
    """All services of one deployment."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, aws: InProcessAws, key: str
    ) -> None:
        self._loop, self._key = loop, key
        self._clock = aws.clock
        self._tables = Tables(aws.dynamodb)
        self._queues = Queues(loop, aws.clock, aws.sqs)
        self._buckets = Buckets(aws.s3)
        aws.others_waiting = self._queues.arrived

    def serve(self, request: Request, connection: Connection) -> None:
        """Answer a request on its connection, at once or later."""

        def respond(answer: Answer) -> None:
            connection.answer(answer.encode(self._clock()))

        if reason := refusal(scope_of(request), self._key):
            said = {"__type": "AccessDeniedException", "message": reason}
            respond(Answer(HTTPStatus.FORBIDDEN, json.dumps(said).encode()))
            return
        target = request.headers.get(b"x-amz-target", b"").decode("latin-1")
        service, _, action = target.partition(".")
        if service == "AmazonSQS":
            host = request.headers.get(b"host", b"").decode("latin-1")
            connection.on_lost = self._queues.handle(
                action, request.body, host, respond
            )
        elif service:
            answer = self._tables.handle(action, request.body)
            if took_s := self._tables.took_s:
                self._loop.call_later(took_s, respond, answer)
            else:
                respond(answer)
        elif b"/s3/" in request.headers.get(b"authorization", b""):
            respond(self._buckets.handle(request))
        else:
            respond(other_answer(request))


def scope_of(request: Request) -> dict[str, Any]:
    """Return a request as the guard reads it."""
    return {
        "method": request.method,
        "path": request.path,
        "query_string": request.query,
        "headers": list(request.headers.items()),
    }


def other_answer(request: Request) -> Answer:
    """Return the answer to a health check or to another service's request."""
    if request.path == HEALTH:
        return ok_answer({"version": IN_PROCESS})
    if b"Action=GetCallerIdentity" in request.body:
        return caller_identity()
    return unknown_operation(f"{request.method} {request.path}")


def caller_identity() -> Answer:
    """Return the account, as STS does."""
    return Answer(HTTPStatus.OK, CALLER.encode(), {"Content-Type": XML})
