"""A tap on AWS: tells which messages were deleted, and spoils a few batches.

    python -m verification.soak.tap --upstream URL --acks FILE --seed N
    python -m verification.soak.tap --upstream URL --acks FILE --throttled FILE

It stands between the workers and the fault proxy, which cannot answer for one entry of
a batch. The tap drops a few from a batch and reports them as failed. It sends each
statement of a batch as the Put that it stands for: the emulator's stream has no change
of a statement.

With `--throttled` it refuses requests of DynamoDB for the key of a partition, some
seconds long, as `piecework_simulation.aws.throughput` draws it, and writes down when.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

from aiohttp import ClientError, ClientSession, ClientTimeout, web
from botocore.exceptions import ClientError as AwsError

from piecework_orchestrator.demo import processes
from piecework_orchestrator.demo.processes import ChildProcess
from piecework_simulation.aws.dynamodb import CODES_OF_STATEMENTS
from piecework_simulation.aws.errors import cancelled
from piecework_simulation.aws.statements import read_insert
from piecework_simulation.aws.throughput import Throughput

LOOPBACK = "127.0.0.1"
#: In 100 entries of batches, this many fail alone.
SPOILT = 2
HOP = {"host", "content-length", "transfer-encoding", "connection"}
#: In 1,000 requests of DynamoDB, at this many the throttling of a key begins.
HOT = 3
READS = {"GetItem", "Query"}
SINGLE = {"UpdateItem", "PutItem", "DeleteItem", *READS}
BATCHES = {"SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"}


@dataclass(slots=True)
class Draw:
    """Draws when the throttling of a key begins; never while it is calm."""

    rng: Random
    is_calm: bool = False

    def fires(self, _: str) -> bool:
        """Return whether it begins now."""
        return self.rng.uniform(0, 1000) < HOT and not self.is_calm


@dataclass(slots=True)
class Tap:
    """What was seen of the work queue so far."""

    upstream: str
    acks: int
    rng: Random
    http: ClientSession
    throughput: Throughput | None = None
    throttled: int = -1
    bodies: dict[str, str] = field(default_factory=dict)

    async def pass_on(self, request: web.Request) -> web.StreamResponse:
        """Forward a request, and look at it on its way."""
        raw = await request.read()
        operation = request.headers.get("X-Amz-Target", "").partition(".")[2]
        asked = json.loads(raw) if operation else {}
        failed = self.spoil(asked) if operation in BATCHES else []
        if failed:
            raw = json.dumps(asked).encode()
        if operation == "DeleteMessageBatch":
            self.note(asked)
        if failed and not asked["Entries"]:
            return web.json_response({"Successful": [], "Failed": failed})
        try:
            self.throttle(operation, asked)
        except AwsError as error:
            return refusal(error)
        try:
            if operation == "BatchExecuteStatement":
                return await self.insert(request, asked["Statements"])
            return await self.forward(request, raw, operation, failed)
        except ClientError:
            if request.transport is not None:
                request.transport.abort()  # as it was done to us
            return web.Response()

    async def insert(
        self, request: web.Request, statements: list[dict[str, Any]]
    ) -> web.Response:
        """Send each statement as a Put; a fault of one is that of the batch."""
        answers: list[dict[str, Any]] = []
        target = {"X-Amz-Target": "DynamoDB_20120810.PutItem"}
        for statement in statements:
            put = read_insert(statement)
            try:
                self.throttle("PutItem", put)
            except AwsError as wrong:
                found = wrong.response["Error"]
                code = CODES_OF_STATEMENTS[found["Code"]]
                answers.append({"Error": {"Code": code, "Message": found["Message"]}})
                continue
            raw = json.dumps(put).encode()
            reply = await self.forward(request, raw, "PutItem", [], target)
            said = json.loads(reply.body if isinstance(reply.body, bytes) else b"{}")
            code = said.get("__type", "").rpartition("#")[2]
            alone = {"ConditionalCheckFailedException": "DuplicateItem"}
            alone |= CODES_OF_STATEMENTS
            if reply.status != HTTPStatus.OK and code not in alone:
                return reply
            error = {"Error": {"Code": alone.get(code), "Message": "As the Put."}}
            answers.append({} if reply.status == HTTPStatus.OK else error)
        return web.json_response({"Responses": answers})

    async def forward(
        self,
        request: web.Request,
        raw: bytes,
        operation: str,
        failed: list[Any],
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> web.Response:
        """Ask, and hand the answer on."""
        headers = {k: v for k, v in request.headers.items() if k.lower() not in HOP}
        headers |= more
        url = f"{self.upstream}{request.rel_url}"
        async with self.http.post(url, data=raw, headers=headers) as reply:
            body = await reply.read()
            kept = {k: v for k, v in reply.headers.items() if k.lower() not in HOP}
            status = reply.status
        if operation == "ReceiveMessage" and status == 200:
            for message in json.loads(body).get("Messages", []):
                self.bodies[message["ReceiptHandle"]] = message["Body"]
        if failed and status == 200:
            answer = json.loads(body)
            answer["Failed"] = [*answer.get("Failed", []), *failed]
            body = json.dumps(answer).encode()
        kept.pop("Content-Encoding", None)
        return web.Response(status=status, body=body, headers=kept)

    def throttle(self, operation: str, asked: Mapping[str, Any]) -> None:
        """Raise what DynamoDB answers if the key of a request has no capacity."""
        throughput = self.throughput
        if throughput is None:
            return
        if operation in SINGLE:
            take = throughput.take_read if operation in READS else throughput.take_write
            before = dict(throughput.hot_until)
            try:
                take(operation, asked["TableName"], partition_of(asked), 1)
            finally:
                self.note_throttled(throughput.hot_until.items() - before.items())
        elif operation == "TransactWriteItems":
            codes = [self.code_of(write) for write in asked["TransactItems"]]
            if set(codes) != {"None"}:
                raise cancelled([{"Code": code} for code in codes])

    def code_of(self, action: Mapping[str, Any]) -> str:
        """Return the reason of an action of a transaction."""
        (write,) = action.values()
        try:
            self.throttle("PutItem", write)
        except AwsError as error:
            return CODES_OF_STATEMENTS[error.response["Error"]["Code"]]
        return "None"

    def spoil(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        """Take a few entries out of a batch; return their failures."""
        kept: list[Any] = []
        failed: list[Any] = []
        for entry in asked.get("Entries", []):
            spoilt = self.rng.uniform(0, 100) < SPOILT
            (failed if spoilt else kept).append(entry)
        asked["Entries"] = kept
        return [
            {"Id": entry["Id"], "SenderFault": False, "Code": "InternalError"}
            for entry in failed
        ]

    def note_throttled(
        self, begun: Iterable[tuple[tuple[str, str, str], float]]
    ) -> None:
        """Write down the partitions that are throttled from now on, and until when."""
        for (_, _, pk), until in begun:
            line = {"at": time.time(), "until": until, "pk": pk}
            os.write(self.throttled, json.dumps(line).encode() + b"\n")

    def note(self, asked: dict[str, Any]) -> None:
        """Write down what a worker wants deleted, before it is."""
        if asked["QueueUrl"].endswith("-dlq"):
            return
        for entry in asked["Entries"]:
            if body := self.bodies.get(entry["ReceiptHandle"]):
                line = {"at": time.time(), "body": body}
                os.write(self.acks, json.dumps(line).encode() + b"\n")


def refusal(error: AwsError) -> web.Response:
    """Return an error as DynamoDB writes it."""
    body: dict[str, Any] = {
        "__type": error.response["Error"]["Code"],
        "message": error.response["Error"]["Message"],
    }
    if reasons := error.response.get("CancellationReasons"):
        body["CancellationReasons"] = reasons
    return web.json_response(body, status=HTTPStatus.BAD_REQUEST)


def partition_of(asked: Mapping[str, Any]) -> str:
    """Return the partition that a request of DynamoDB reads or writes."""
    key = asked.get("Key") or asked.get("Item") or {}
    values = asked.get("ExpressionAttributeValues", {})
    return str((key.get("pk") or values.get(":pk", {})).get("S", ""))


def start(
    upstream: str,
    seed: int,
    acks: Path,
    seen: dict[str, str],
    folder: Path,
    *,
    throttled: Path | None = None,
) -> ChildProcess:
    """Start a tap as a process of its own; it says where it is."""
    options = {"--upstream": upstream, "--seed": seed, "--acks": acks}
    options |= {"--throttled": throttled} if throttled else {}
    words = [str(word) for option in options.items() for word in option]
    module = ["verification.soak.tap", *words]
    return processes.start_process("tap", module, seen, folder / "tap.log", listen=True)


def calm(url: str, *, yes: bool) -> None:
    """Let a tap throttle no key until it is told otherwise."""
    address = f"{url}/_tap/calm/{'yes' if yes else 'no'}"
    request = Request(address, b"", method="PUT")  # noqa: S310 -- our own
    build_opener(ProxyHandler({})).open(request, timeout=10).close()


async def serve(arguments: argparse.Namespace) -> None:
    """Pass on until killed."""
    acks = opened(arguments.acks)
    async with ClientSession(timeout=ClientTimeout(total=60)) as http:
        rng = Random(f"tap {arguments.seed}")
        drawn = Random(f"throttle {arguments.seed}")
        draw = Draw(drawn)
        limits = Throughput(time.time, drawn, chaos=draw)
        tap = Tap(arguments.upstream, acks, rng, http)
        if arguments.throttled:
            tap.throughput, tap.throttled = limits, opened(arguments.throttled)

        async def set_calm(request: web.Request) -> web.Response:
            draw.is_calm = request.match_info["calm"] == "yes"
            limits.hot_until.clear()
            return web.Response()

        app = web.Application()
        app.router.add_put("/_tap/calm/{calm}", set_calm)
        app.router.add_post("/{path:.*}", tap.pass_on)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, LOOPBACK, 0).start()
        port = runner.addresses[0][1]
        sys.stdout.write(json.dumps({"url": f"http://{LOOPBACK}:{port}"}) + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def opened(path: Path) -> int:
    """Open a file for lines at its end."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="verification.soak.tap")
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--acks", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--throttled", type=Path)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
