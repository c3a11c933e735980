"""Whom a request is for; each is counted with what it is billed as."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from functools import partial
from random import Random

from bench import meter
from bench.aws_server.tables import Tables
from piecework_simulation.aws.conflicts import Conflicts
from piecework_simulation.aws.dynamodb import DynamoDB
from piecework_simulation.aws.s3 import S3
from piecework_simulation.aws.sqs import SQS
from piecework_simulation.aws_server.buckets import Buckets
from piecework_simulation.aws_server.http import (
    Answer,
    Connection,
    Request,
    ok_answer,
    unknown_operation,
)
from piecework_simulation.aws_server.queues import Queues
from piecework_simulation.aws_server.server import caller_identity


class AwsServer:
    """All services, and the counts of their requests."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        now: Callable[[], float],
        conflicts: Conflicts | None = None,
    ) -> None:
        self.counts: dict[str, list[float]] = {}
        self._loop, self._now = loop, now
        self._tables = Tables(now, conflicts)
        sqs = SQS(now, Random())
        self._queues = Queues(loop, now, sqs)
        sqs.on_arrival = self._queues.arrived
        self._buckets = Buckets(S3(now, buckets=()))

    def use_tables(self, model: DynamoDB) -> None:
        """Replace the tables, before the first request."""
        self._tables = Tables(self._now, model=model)

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
                answer = self._tables.handle(action, request.body)
                if took_s := self._tables.took_s:
                    self._loop.call_later(took_s, respond, answer)
                else:
                    respond(answer)
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
    return caller_identity()
