"""Ask a stand-in as a client does, without a network."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from bench.aws_server.router import AwsServer
from piecework_simulation.aws_server.http import Connection, Request

SERVICES = {"sqs": "AmazonSQS", "dynamodb": "DynamoDB_20120810"}
NOW = 1_700_000_000.0


@dataclass(slots=True)
class Reply(asyncio.Transport):
    """A connection's other end: what was written to it."""

    sent: bytes = b""

    def write(self, data: Any) -> None:
        self.sent += bytes(data)

    @property
    def status(self) -> int:
        return int(self.sent.split()[1])

    @property
    def head(self) -> str:
        return self.sent.partition(b"\r\n\r\n")[0].decode()

    @property
    def body(self) -> bytes:
        return self.sent.partition(b"\r\n\r\n")[2]

    @property
    def said(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class Client:
    """A stand-in, and the time that it is told."""

    loop: Any = None
    aws_server: AwsServer = field(init=False)

    def __post_init__(self) -> None:
        self.aws_server = AwsServer(self.loop, self.now)

    def now(self) -> float:
        return NOW + (self.loop.time() if self.loop else 0.0)

    def handle(self, operation: str, **request: Any) -> Reply:
        """Ask this of DynamoDB or SQS: `sqs.SendMessage`."""
        return self.open(operation, **request)[1]

    def open(
        self, operation: str, agent: str = "", **request: Any
    ) -> tuple[Connection, Reply]:
        service, _, action = operation.partition(".")
        headers = {
            b"host": b"127.0.0.1:1",
            b"user-agent": agent.encode(),
            b"x-amz-target": f"{SERVICES[service]}.{action}".encode(),
        }
        body = json.dumps(request).encode()
        return self.send(Request("POST", "/", b"", headers, body))

    def object(
        self, method: str, path: str, body: bytes = b"", **headers: str
    ) -> Reply:
        """Ask this of S3."""
        path, _, query = path.partition("?")
        named = {
            name.replace("_", "-").encode(): text.encode()
            for name, text in {"authorization": "x/s3/aws4", **headers}.items()
        }
        return self.send(Request(method, path, query.encode(), named, body))[1]

    def send(self, request: Request) -> tuple[Connection, Reply]:
        line = Reply()
        connection = Connection(self.aws_server.serve)
        connection.connection_made(line)
        self.aws_server.serve(request, connection)
        return connection, line

    def units(self, operation: str) -> float:
        return self.aws_server.counts[operation][2]
