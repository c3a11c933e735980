"""A door in front of the embedded AWS that lets in as IAM would, and keeps a list.

    python -m verification.iam.door --upstream URL --env NAME --record FILE

Actors are told apart by the id of the access key that they sign with.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from aiohttp import ClientError, ClientSession, ClientTimeout, web
from yarl import URL

from tests.doorway import handed_on, standing
from verification.iam.asked import Wire, asked
from verification.iam.evaluate import Decision, Request, Statement, decide
from verification.iam.roles import EVERYTHING, resource_statements, roles

JSON_DENIAL = '{{"__type":"com.amazonaws#AccessDeniedException","message":"{}"}}'
XML_DENIAL = (
    "<ErrorResponse><Error><Code>AccessDenied</Code><Message>{}</Message></Error>"
    "</ErrorResponse>"
)
DENIALS = {
    "s3": "<Error><Code>AccessDenied</Code><Message>{}</Message></Error>",
    "dynamodb": JSON_DENIAL,
    "sqs": JSON_DENIAL,
}
MADE = re.compile(rb"<Id>([^<]+)</Id>.*<StackId>([^<]+)</StackId>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Call:
    """Something that an actor asked for."""

    actor: str
    action: str
    resource: str
    keys: tuple[str, ...] = ()
    prefix: str = ""


@dataclass(slots=True)
class Door:
    """What each actor may do, and what each has asked for so far.

    Attributes:
        strange: Requests that nobody knows what they need.
        change_sets: The stack of each change set.
    """

    upstream: str
    grants: Mapping[str, Sequence[Statement]]
    on_resources: Sequence[Statement]
    let_in: Counter[Call] = field(default_factory=Counter)
    denied: Counter[Call] = field(default_factory=Counter)
    strange: Counter[str] = field(default_factory=Counter)
    change_sets: dict[str, str] = field(default_factory=dict)
    decisions: int = 0
    http: ClientSession | None = None

    async def pass_on(self, request: web.Request) -> web.StreamResponse:
        """Let a request in, or not."""
        path, _, query = request.raw_path.partition("?")
        body = await request.read()
        wire = Wire(request.method, path, query, request.headers, body)
        actor, service = wire.signed
        if refused := self.refusal(wire):
            return denial(service, f"{actor} may not {refused}")
        try:
            answer = await self.forward(request.raw_path, wire)
        except ClientError:
            if request.transport is not None:
                request.transport.abort()  # as it was done to us
            return web.Response()
        if service == "s3" and answer.status == 404 and not self.lists(wire):
            return denial(service, f"{actor} is not told what is missing")
        return answer

    def refusal(self, wire: Wire) -> str:
        """Decide about a request; return what is refused, if anything is."""
        actor, service = wire.signed
        try:
            wanted = asked(wire, self.change_sets)
        except KeyError as error:
            self.strange[f"{actor}: {service} {wire.method} {wire.path}: {error}"] += 1
            return f"ask for {error}"
        for one in wanted:
            self.decisions += 1
            allowed = self.decide(actor, one) is Decision.ALLOWED
            (self.let_in if allowed else self.denied)[call(actor, one)] += 1
            if not allowed:
                return one.action
        return ""

    def decide(self, actor: str, request: Request) -> Decision:
        """Decide as IAM does about one action."""
        return decide(request, self.grants.get(actor, ()), self.on_resources)

    def lists(self, wire: Wire) -> bool:
        """Say whether somebody may list: S3 tells nobody else what is missing."""
        (got,) = asked(wire, {})
        bucket, _, prefix = got.resource.partition("/")
        listing = Request("s3:ListBucket", bucket, {**got.context, "s3:prefix": prefix})
        return self.decide(wire.signed[0], listing) is Decision.ALLOWED

    async def forward(self, raw_path: str, wire: Wire) -> web.Response:
        """Ask, and hand the answer on."""
        assert self.http is not None
        headers = handed_on(wire.headers)
        url = URL(f"{self.upstream}{raw_path}", encoded=True)
        async with self.http.request(
            wire.method, url, data=wire.body, headers=headers
        ) as reply:
            body = await reply.read()
            kept = handed_on(reply.headers)
        if b"Action=CreateChangeSet" in wire.body and (made := MADE.search(body)):
            self.change_sets[made[1].decode()] = made[2].decode()
        return web.Response(status=reply.status, body=body, headers=kept)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        """Stand in front of the emulator; yield where."""
        patience = ClientTimeout(total=60)
        async with (
            ClientSession(timeout=patience, auto_decompress=False) as self.http,
            standing(self.pass_on) as url,
        ):
            yield url


def door(upstream: str, env: str, **given: str) -> Door:
    """Return the door of a deployment whose roles were given this, or everything."""
    made = roles(env=env, **(given or EVERYTHING))
    grants = {actor: role.grants for actor, role in made.items()}
    return Door(upstream, grants, resource_statements(env=env))


def call(actor: str, request: Request) -> Call:
    """Return what is kept of a request."""
    keys = request.context.get("dynamodb:leadingkeys", ())
    prefix = request.context.get("s3:prefix", "")
    return Call(actor, request.action, request.resource, tuple(keys), str(prefix))


def denial(service: str, why: str) -> web.Response:
    """Answer as a service does to whom IAM does not let in."""
    status = 400 if service == "dynamodb" else 403
    return web.Response(
        status=status, text=DENIALS.get(service, XML_DENIAL).format(why)
    )


async def serve(told: argparse.Namespace) -> None:
    """Stand there until killed; write down now and then who asked for what."""
    ours = door(told.upstream, told.env)
    async with ours.open() as url:
        sys.stdout.write(json.dumps({"url": url}) + "\n")
        sys.stdout.flush()
        while True:
            await asyncio.sleep(told.every_s)
            write(ours, told.record)


def write(ours: Door, path: Path) -> None:
    """Write down who asked for what, in one piece."""
    facts = {
        "let_in": [asdict(one) for one in ours.let_in],
        "denied": [asdict(one) for one in ours.denied],
        "strange": list(ours.strange),
        "decisions": ours.decisions,
    }
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(facts))
    draft.replace(path)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="verification.iam.door")
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--env", required=True)
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--every-s", type=float, default=0.5)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
