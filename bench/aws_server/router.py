"""Whom a request is for; each is counted with what it is billed as."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from functools import partial
from http import HTTPStatus

from bench import meter
from bench.aws_server.buckets import XML, Buckets
from bench.aws_server.http import (
    Answer,
    Connection,
    Request,
    ok_answer,
    unknown_operation,
)
from bench.aws_server.queues import Queues
from bench.aws_server.tables import Tables
from piecework_simulation.aws.sqs_messages import ACCOUNT

STS = "https://sts.amazonaws.com/doc/2011-06-15/"
CALLER = (
    f'<GetCallerIdentityResponse xmlns="{STS}"><GetCallerIdentityResult>'
    f"<Arn>arn:aws:iam::{ACCOUNT}:root</Arn><UserId>{ACCOUNT}</UserId>"
    f"<Account>{ACCOUNT}</Account></GetCallerIdentityResult>"
    "<ResponseMetadata><RequestId>0</RequestId></ResponseMetadata>"
    "</GetCallerIdentityResponse>"
)


class AwsServer:
    """All services, and the counts of their requests."""

    def __init__(self, loop: AbstractEventLoop, now: Callable[[], float]) -> None:
        self.counts: dict[str, list[float]] = {}
        self._now = now
        self._tables = Tables(now)
        self._queues = Queues(loop, now)
        self._buckets = Buckets(now)

    def serve(self, request: Request, connection: Connection) -> None:
        """Answer a request on its connection."""
        if request.path == "/_bench":
            connection.answer(ok_answer(self.counts).encode(self._now()))
            return
        place = (request.method, request.path, request.query, request.headers)
        name = meter.operation(*place, request.body)
        respond = partial(self._answer, request, connection, name)
        service, _, action = name.partition(".")
        match service:
            case "dynamodb":
                respond(self._tables.handle(action, request.body))
            case "sqs":
                host = request.headers.get(b"host", b"").decode("latin-1")
                if off := self._queues.handle(action, request.body, host, respond):
                    connection.on_lost = off
            case "s3":
                respond(self._buckets.handle(request))
            case _:
                respond(other(action))

    def _answer(
        self, request: Request, connection: Connection, name: str, answer: Answer
    ) -> None:
        """Count a request, and send its answer."""
        if not meter.is_observer(request.headers):
            sizes = (len(request.body), len(answer.body))
            meter.count_request(self.counts, name, *sizes, answer.units)
        connection.answer(answer.encode(self._now()))


def other(action: str) -> Answer:
    """Return the answer of an unused service."""
    if action != "GetCallerIdentity":
        return unknown_operation(action)
    return Answer(HTTPStatus.OK, CALLER.encode(), {"Content-Type": XML})
