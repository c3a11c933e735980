"""Send the requests of a command without the SDK, where its rules cannot matter.

The SDK takes a second of CPU until its first request. A command takes less for all
else. So the operations of tables and queues, whole objects and the account's number are
requested here. The SDK sends all else. It also repeats each request that has neither a
success nor a refused condition, as it repeats one without an answer.
"""

from __future__ import annotations

import html
import json
import re
import ssl
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from io import BytesIO
from pathlib import Path
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote

import botocore
from botocore.exceptions import BotoCoreError, ClientError

from piecework.aws.transport.access import Access
from piecework.aws.transport.answer import Answer, matches_checksum, parse_success
from piecework.aws.transport.connections import Connections
from piecework.aws.transport.genuine import genuine_answer, is_aws
from piecework.aws.transport.request import (
    JSON_OPERATIONS,
    Route,
    encode,
    new_invocation_id,
)

#: The services with JSON operations, each with its name in a request.
TARGETS: Final = {"dynamodb": "DynamoDB_20120810", "sqs": "AmazonSQS"}
OPERATIONS: Final = JSON_OPERATIONS | {"get_queue_url": "GetQueueUrl"}
#: The answers to a write whose condition did not hold.
REFUSALS: Final = {"ConditionalCheckFailedException", "TransactionCanceledException"}
#: Bytes of an object that is sent from memory, and that is read into it. The SDK
#: streams larger ones.
OBJECT_LIMIT: Final = 8 * 1024 * 1024
READ_LIMIT: Final = 1024 * 1024
IDENTITY: Final = b"Action=GetCallerIdentity&Version=2011-06-15"
FORM: Final = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}


class Operation(NamedTuple):
    """An operation, as the listeners of requests know it."""

    name: str


class Meta(NamedTuple):
    """What a client says of itself."""

    region_name: str


class Listeners(NamedTuple):
    """What a client calls before a request and after it, as the SDK's events do."""

    asked: Callable[..., object] = lambda **_: None
    answered: Callable[..., object] = lambda **_: None


def tls_context() -> ssl.SSLContext:
    """Return a context with the certificates that the SDK trusts."""
    bundle = Path(str(botocore.__file__)).with_name("cacert.pem")
    return ssl.create_default_context(cafile=str(bundle))


class DirectClient:
    """A client of one service.

    Args:
        sdk: Returns the client of the SDK, which it opens at the first use.
    """

    def __init__(
        self,
        access: Access,
        service: str,
        connections: Connections,
        sdk: Callable[[], Awaitable[Any]],
        listeners: Listeners = Listeners(),  # noqa: B008 -- it cannot be changed
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._access, self._service, self._sdk = access, service, sdk
        self._connections, self._clock = connections, clock
        self._listeners = listeners
        self.meta = Meta(access.region)
        self._routes: dict[str, Route] = {}

    def __getattr__(self, name: str) -> Any:
        """Return an operation; the SDK sends those that are not known here."""
        if self._service in TARGETS and name in OPERATIONS:
            return partial(self._call, name)
        return partial(self._by_sdk, name)

    def get_paginator(self, name: str) -> Pages:
        """Return the pages of an operation, which the SDK sends."""
        return Pages(self._sdk, name)

    async def get_object(self, **request: Any) -> Any:
        """Read a whole object, or a range of one."""
        found = None
        if request.keys() <= {"Bucket", "Key", "Range"}:
            most = {"Range": request.get("Range", f"bytes=0-{READ_LIMIT - 1}")}
            parse = parse_part if "Range" in request else parse_object
            found = await self._object("GetObject", "GET", request, b"", most, parse)
        return found or await self._by_sdk("get_object", **request)

    async def put_object(self, **request: Any) -> Any:
        """Write a whole object."""
        found = body = None
        if request.keys() == {"Bucket", "Key", "Body", "ContentType"}:
            body = small_body(request["Body"])
        if body is not None:
            kind = {"Content-Type": request["ContentType"]}
            place = ("PutObject", "PUT")
            found = await self._object(*place, request, body, kind, parse_object)
        return found or await self._by_sdk("put_object", **request)

    async def get_caller_identity(self) -> Any:
        """Return the account's number and the caller's name."""
        route = self._route("/", FORM, "POST")
        operation = Operation("GetCallerIdentity")
        found = await self._send(operation, route, IDENTITY, {}, parse_identity)
        return found or await self._by_sdk("get_caller_identity")

    async def _by_sdk(self, name: str, /, **request: Any) -> Any:
        return await getattr(await self._sdk(), name)(**request)

    async def _call(self, name: str, /, **request: Any) -> Any:
        operation = OPERATIONS[name]
        route = self._routes.get(operation)
        if route is None:
            headers = {
                "X-Amz-Target": f"{TARGETS[self._service]}.{operation}",
                "Content-Type": "application/x-amz-json-1.0",
            }
            route = self._routes[operation] = self._route("/", headers, "POST")
        found = await self._send(
            Operation(operation), route, None, request, parse_any_success
        )
        return await self._by_sdk(name, **request) if found is None else found

    async def _object(
        self,
        operation: str,
        method: str,
        request: Mapping[str, Any],
        body: bytes,
        headers: Mapping[str, str],
        parse: Callable[[Answer], dict[str, Any] | None],
    ) -> dict[str, Any] | None:
        """Send a request for an object; return its success, else None."""
        bucket, key = request["Bucket"], quote(request["Key"], safe="/-_.~")
        url = self._access.url.rstrip("/")
        if is_aws(url) and "." not in bucket:
            url = url.replace("://", f"://{bucket}.", 1)
        else:
            key = f"{bucket}/{key}"
        signed = {**headers, "X-Amz-Content-SHA256": sha256(body).hexdigest()}
        route = self._route(f"/{key}", signed, method, url)
        return await self._send(Operation(operation), route, body, dict(request), parse)

    def _route(
        self, path: str, headers: dict[str, str], method: str, url: str = ""
    ) -> Route:
        access = self._access
        return Route(
            (url or access.url.rstrip("/")) + path,
            headers,
            access.credentials,
            access.region,
            self._service,
            method=method,
        )

    async def _send(
        self,
        operation: Operation,
        route: Route,
        body: bytes | None,
        request: dict[str, Any],
        parse: Callable[[Answer], dict[str, Any] | None],
    ) -> dict[str, Any] | None:
        """Return what a success says; None if there is not one.

        A body that is None is the request as JSON.

        Raises:
            ClientError: The condition of a write did not hold.
        """
        context: dict[str, Any] = {}
        self._listeners.asked(params=request, model=operation, context=context)
        content = encode(request) if body is None else body
        attempt = {"invocation-id": new_invocation_id(), "attempt": 1}
        sent = route.request(content, self._clock(), attempt)
        found = refused = None
        try:
            answer = await self._connections.send(route, sent)
        except BotoCoreError:
            pass
        else:
            answer = genuine_answer(route.url, self._service, answer)
            found, refused = parse(answer), parse_refusal(answer)
        said = refused or found
        self._listeners.answered(parsed_response=said, context=context)
        if refused is not None:
            raise ClientError(refused, operation.name)
        return found


class Pages(NamedTuple):
    """The pages of an operation."""

    sdk: Callable[[], Awaitable[Any]]
    name: str

    async def paginate(self, **request: Any) -> AsyncIterator[Any]:
        """Yield the pages, as the SDK does."""
        async for page in (
            (await self.sdk()).get_paginator(self.name).paginate(**request)
        ):
            yield page


def small_body(content: Any) -> bytes | None:
    """Return the content of an object, from where a file is; None: it is large."""
    if isinstance(content, bytes):
        return content if len(content) <= OBJECT_LIMIT else None
    at = content.tell()
    body: bytes = content.read(OBJECT_LIMIT + 1)
    content.seek(at)
    return body if len(body) <= OBJECT_LIMIT else None


def parse_object(answer: Answer) -> dict[str, Any] | None:
    """Return a whole object, or the success of its write; None: ask the SDK."""
    body = answer.body
    whole = (
        answer.headers.get("content-range") == f"bytes 0-{len(body) - 1}/{len(body)}"
    )
    if answer.status_code != HTTPStatus.OK and not (
        whole and answer.status_code == HTTPStatus.PARTIAL_CONTENT
    ):
        return None
    return {"Body": Body(BytesIO(body)), "ContentLength": len(body)}


def parse_part(answer: Answer) -> dict[str, Any] | None:
    """Return the range of an object that was asked for; None: ask the SDK."""
    if answer.status_code != HTTPStatus.PARTIAL_CONTENT:
        return None
    body = answer.body
    return {"Body": Body(BytesIO(body)), "ContentLength": len(body)}


def parse_identity(answer: Answer) -> dict[str, Any] | None:
    """Return the account and the name of a caller; None: ask the SDK."""
    text = answer.body.decode("utf-8", "replace")
    account = re.search("<Account>([0-9]{12})</Account>", text)
    arn = re.search("<Arn>([^<]+)</Arn>", text)
    if answer.status_code != HTTPStatus.OK or account is None or arn is None:
        return None
    return {"Account": account[1], "Arn": html.unescape(arn[1])}


def parse_any_success(answer: Answer) -> dict[str, Any] | None:
    """Return what the SDK would return for a success with any values."""
    if answer.status_code != HTTPStatus.OK:
        return None
    return parse_success(answer) or read_values(answer)


def parse_refusal(answer: Answer) -> Any:
    """Return what the SDK would raise for a condition that did not hold, else None."""
    found = None
    if answer.status_code == HTTPStatus.BAD_REQUEST:
        found = read_values(answer)
    code = str((found or {}).pop("__type", "")).rpartition("#")[2]
    if found is None or code not in REFUSALS:
        return None
    message = str(found.get("message") or found.get("Message") or "")
    return {**found, "Error": {"Code": code, "Message": message}}


def read_values(answer: Answer) -> dict[str, Any] | None:
    """Return a JSON answer with any values; None: it is damaged."""
    if not matches_checksum(answer):
        return None
    try:
        parsed = json.loads(answer.body.decode(), object_hook=as_the_sdk)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def as_the_sdk(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object without nulls, and with decoded binary values.

    An attribute that is called `B` has an object as its value, never a text.
    """
    kept = {name: each for name, each in value.items() if each is not None}
    if isinstance(kept.get("B"), str):
        kept["B"] = b64decode(kept["B"])
    if isinstance(kept.get("BS"), list):
        kept["BS"] = [b64decode(each) for each in kept["BS"]]
    return kept


@dataclass(frozen=True, slots=True)
class Body:
    """The body of an object, with the part of the SDK's interface that we use."""

    content: BytesIO

    async def __aenter__(self) -> Self:
        """Return the body itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Do nothing: the whole body is in memory."""

    async def read(self, most: int = -1) -> bytes:
        """Return the next bytes; without a number, all."""
        return self.content.read(most)

    async def iter_chunks(self, size: int) -> AsyncIterator[bytes]:
        """Yield the rest in blocks, as a submit reads its input from S3."""
        while block := self.content.read(size):
            yield block
