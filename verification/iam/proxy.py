"""A proxy in front of the embedded AWS that decides as IAM does, and records.

Actors are told apart by the id of the access key that they sign with.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import ClientError, ClientSession, ClientTimeout, web
from yarl import URL

from tests.forwarding import end_to_end, serving
from verification.iam.evaluate import Decision, Request, Statement, decide
from verification.iam.requests import Wire, permissions_needed
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
    """A request of an actor."""

    actor: str
    action: str
    resource: str
    keys: tuple[str, ...] = ()
    prefix: str = ""


@dataclass(slots=True)
class Proxy:
    """The grants of each actor, and its requests so far.

    Attributes:
        strange: Requests whose permissions `operations.py` does not list.
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
        """Forward a request if its actor's role allows it."""
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
                request.transport.abort()  # as the upstream did
            return web.Response()
        if service == "s3" and answer.status == 404 and not self.lists(wire):
            return denial(service, f"{actor} may not list")
        return answer

    def refusal(self, wire: Wire) -> str:
        """Return the first action that is refused, if any."""
        actor, service = wire.signed
        try:
            wanted = permissions_needed(wire, self.change_sets)
        except KeyError as error:
            self.strange[f"{actor}: {service} {wire.method} {wire.path}: {error}"] += 1
            return f"call {error}"
        for one in wanted:
            self.decisions += 1
            allowed = self.decide(actor, one) is Decision.ALLOWED
            (self.let_in if allowed else self.denied)[call(actor, one)] += 1
            if not allowed:
                return one.action
        return ""

    def decide(self, actor: str, request: Request) -> Decision:
        return decide(request, self.grants.get(actor, ()), self.on_resources)

    def lists(self, wire: Wire) -> bool:
        """Return whether an actor may list: only then S3 says that a key is missing."""
        (got,) = permissions_needed(wire, {})
        bucket, _, prefix = got.resource.partition("/")
        listing = Request("s3:ListBucket", bucket, {**got.context, "s3:prefix": prefix})
        return self.decide(wire.signed[0], listing) is Decision.ALLOWED

    async def forward(self, raw_path: str, wire: Wire) -> web.Response:
        """Send the request on, and return the answer."""
        assert self.http is not None
        headers = end_to_end(wire.headers)
        url = URL(f"{self.upstream}{raw_path}", encoded=True)
        async with self.http.request(
            wire.method, url, data=wire.body, headers=headers
        ) as reply:
            body = await reply.read()
            kept = end_to_end(reply.headers)
        if b"Action=CreateChangeSet" in wire.body and (made := MADE.search(body)):
            self.change_sets[made[1].decode()] = made[2].decode()
        return web.Response(status=reply.status, body=body, headers=kept)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        """Listen in front of the emulator; yield the address."""
        patience = ClientTimeout(total=60)
        async with (
            ClientSession(timeout=patience, auto_decompress=False) as self.http,
            serving(self.pass_on) as url,
        ):
            yield url


def make_proxy(upstream: str, env: str, **given: str) -> Proxy:
    """Return the proxy of a deployment; its roles have these parameters, or all."""
    made = roles(env=env, **(given or EVERYTHING))
    grants = {actor: role.grants for actor, role in made.items()}
    return Proxy(upstream, grants, resource_statements(env=env))


def call(actor: str, request: Request) -> Call:
    """Return the record of a request."""
    keys = request.context.get("dynamodb:leadingkeys", ())
    prefix = request.context.get("s3:prefix", "")
    return Call(actor, request.action, request.resource, tuple(keys), str(prefix))


def denial(service: str, why: str) -> web.Response:
    """Answer as a service does when IAM denies a request."""
    status = 400 if service == "dynamodb" else 403
    return web.Response(
        status=status, text=DENIALS.get(service, XML_DENIAL).format(why)
    )
