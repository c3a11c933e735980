"""The SDK's client and the thin one on the same answers: what each sends and says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from zlib import crc32

import aiobotocore.session
from aiobotocore.awsrequest import AioAWSResponse
from aiobotocore.config import AioConfig
from botocore.exceptions import BotoCoreError

from piecework.aws.transport.answer import Answer
from piecework.aws.transport.client import ThinClient
from piecework.aws.transport.request import Route
from piecework.aws.transport.sdk import Sdk

#: Reads the model of a service once.
SESSION = aiobotocore.session.get_session()
NOW = 1_790_000_000.0
#: They differ from one request to the next.
BY_CHANCE = {"amz-sdk-invocation-id"}
#: The SDK's own HTTP session adds them.
OF_HTTP = {"host", "accept-encoding"}


def answer(
    body: str | bytes = "{}", status: int = 200, **headers: str
) -> Answer | BotoCoreError:
    """Return an answer of AWS; of a header's name `_` is `-`."""
    content = body.encode() if isinstance(body, str) else body
    ours = {"x_amzn_requestid": "an id"}
    if status == HTTPStatus.OK:
        ours["x_amz_crc32"] = str(crc32(content))
    return foreign(content, status, **(ours | headers))


def foreign(
    body: str | bytes = "{}", status: int = 200, **headers: str
) -> Answer | BotoCoreError:
    """Return an answer with no other headers than these."""
    content = body.encode() if isinstance(body, str) else body
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, named, content, closes=False)


@dataclass(frozen=True)
class Sent:
    """A request of either transport."""

    url: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Wire:
    """Stands where the network begins, on both sides."""

    answers: Sequence[Answer | BotoCoreError]
    sent: list[Sent] = field(default_factory=list)

    def next(self) -> Answer:
        found = self.answers[min(len(self.sent), len(self.answers)) - 1]
        if isinstance(found, BotoCoreError):
            raise found
        return found

    async def send(self, route: Route, request: bytes) -> Answer:
        """Stand in for the connections of the thin client."""
        head, _, body = request.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        method, path, version = first.split(" ")
        assert ("POST", "HTTP/1.1") == (method, version)
        assert route.url.endswith(path)
        self.sent.append(Sent(route.url, lowered(headers, OF_HTTP), body))
        return self.next()

    def stand_in(self, request: Any, **_: Any) -> AioAWSResponse:
        """Stand in for the session of the SDK."""
        headers = {
            name: value.decode() if isinstance(value, bytes) else value
            for name, value in request.headers.items()
        }
        self.sent.append(Sent(request.url, lowered(headers, set()), request.body))
        found = self.next()
        headers_: Any = found.headers
        return AioAWSResponse(request.url, found.status_code, headers_, found)


def lowered(headers: Mapping[str, str], without: set[str]) -> dict[str, str]:
    named = {name.lower(): value for name, value in headers.items()}
    return {n: v for n, v in named.items() if n not in without | BY_CHANCE}


@dataclass
class Heard:
    """What those heard who listen to a client's events."""

    said: list[tuple[Any, ...]] = field(default_factory=list)

    def listen(self, client: Any) -> None:
        client.meta.events.register("before-parameter-build", self.asked)
        client.meta.events.register("response-received", self.answered)

    def asked(self, params: Any, model: Any, **_: Any) -> None:
        self.said.append(("asked", model.name, dict(params)))
        params["ReturnConsumedCapacity"] = "TOTAL"

    def answered(self, parsed_response: Any, exception: Any, **_: Any) -> None:
        self.said.append(("answered", parsed_response, type(exception)))


@dataclass
class Both:
    """Two clients of one service that know nothing of each other."""

    sdk: Any
    alike: Any

    async def ask(
        self, name: str, answers: Sequence[Answer | BotoCoreError], **params: Any
    ) -> tuple[Told, Told]:
        """Ask both the same, and return both outcomes: the SDK's, the thin one's."""
        wires = Wire(answers), Wire(answers)
        heard = Heard(), Heard()
        events = self.sdk.meta.events
        events.register("before-send", wires[0].stand_in)
        heard[0].listen(self.sdk)
        heard[1].listen(self.alike)
        waits: list[float] = []

        async def sleep(seconds: float) -> None:
            waits.append(seconds)

        connections: Any = wires[1]
        thin = ThinClient(Sdk(self.alike), connections, clock=lambda: NOW, sleep=sleep)
        try:
            first = await outcome(self.sdk, name, params)
            second = await outcome(thin, name, params)
        finally:
            events.unregister("before-send", wires[0].stand_in)
            for client, ears in zip((self.sdk, self.alike), heard, strict=True):
                client.meta.events.unregister("before-parameter-build", ears.asked)
                client.meta.events.unregister("response-received", ears.answered)
        return (
            Told(first, wires[0].sent, heard[0].said),
            Told(second, wires[1].sent, heard[1].said, waits),
        )


@dataclass(frozen=True)
class Told:
    """The outcome of a request."""

    outcome: Any
    sent: list[Sent]
    heard: list[tuple[Any, ...]]
    waits: list[float] = field(default_factory=list, compare=False)


async def outcome(client: Any, name: str, params: Mapping[str, Any]) -> Any:
    """Return what was answered, or what was raised and what it says."""
    try:
        return await getattr(client, name)(**params)
    except Exception as error:  # noqa: BLE001 -- whatever it is, the other has to raise it
        names = [kind.__name__ for kind in type(error).__mro__]
        return names, str(error), getattr(error, "response", None)


@asynccontextmanager
async def both(
    service: str,
    endpoint: str | None = "http://127.0.0.1:4566",
    token: str | None = None,
    **more: Any,
) -> AsyncIterator[Both]:
    """Open both, without a network."""
    async with (
        client(service, endpoint, token, **more) as sdk,
        client(service, endpoint, token, **more) as alike,
    ):
        yield Both(sdk, alike)


def client(
    service: str, endpoint: str | None, token: str | None = None, **more: Any
) -> Any:
    """Return the SDK's client as `Clients.open` makes it, to be entered."""
    retries = {"mode": "standard", "total_max_attempts": 4}
    config = AioConfig(
        retries=retries, parameter_validation=False, user_agent="piecework", **more
    )
    return SESSION.create_client(
        service,
        region_name="eu-central-1",
        endpoint_url=endpoint,
        config=config,
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="a secret/+",
        aws_session_token=token,
    )
