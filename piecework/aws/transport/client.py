"""A client that sends the hot operations itself and leaves all others to the SDK.

It answers and raises as the SDK does. What is not a plain success is read by the SDK's
parser, and the SDK's own rules say whether it is tried again. Whoever listens to its
events before-parameter-build, response-received, needs-retry and after-call hears of
each request here, too.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, TypeAlias
from zlib import crc32

from aiobotocore.awsrequest import AioAWSResponse
from botocore.exceptions import BotoCoreError
from botocore.hooks import first_non_none_response

from piecework.aws.transport.answer import Answer
from piecework.aws.transport.connections import Connections
from piecework.aws.transport.request import Route, encoded
from piecework.aws.transport.sdk import Sdk
from piecework.telemetry.emit import emit, quiet_log

#: Their parameters and answers are JSON as it stands: no times, no headers.
HOT = {
    "update_item": "UpdateItem",
    "put_item": "PutItem",
    "get_item": "GetItem",
    "query": "Query",
    "transact_write_items": "TransactWriteItems",
    "batch_write_item": "BatchWriteItem",
    "receive_message": "ReceiveMessage",
    "send_message_batch": "SendMessageBatch",
    "delete_message_batch": "DeleteMessageBatch",
    "change_message_visibility_batch": "ChangeMessageVisibilityBatch",
}


class ThinClient:
    """A client of DynamoDB or SQS."""

    def __init__(
        self,
        sdk: Sdk,
        connections: Connections,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._sdk = sdk
        self._sender = Sender(sdk, connections, clock, sleep)
        self._credentials: Any = None
        self._routes: dict[str, Route | None] = {}
        for name, operation in HOT.items():
            if hasattr(sdk.client, name):
                setattr(self, name, partial(self._ask, name, sdk.model(operation)))

    def __getattr__(self, name: str) -> Any:
        """Everything else is the SDK's."""
        return getattr(self._sdk.client, name)

    async def _ask(self, name: str, model: Any, /, **params: Any) -> Any:
        """Send a request and return what its answer says."""
        sdk = self._sdk
        context: dict[str, Any] = {"client_config": sdk.meta.config}
        await sdk.tell(
            "before-parameter-build",
            model,
            params=params,
            model=model,
            context=context,
        )
        try:
            body = encoded(params)
        except TypeError:  # binary values
            return await getattr(sdk.client, name)(**params)
        find = partial(self._route, model.name, params)
        route = await find()
        if route is None:
            return await getattr(sdk.client, name)(**params)
        held, parsed = await self._sender.send(route, body, model, context, find)
        await sdk.tell(
            "after-call",
            model,
            http_response=held,
            parsed=parsed,
            model=model,
            context=context,
        )
        if held.status_code >= 300:  # noqa: PLR2004 -- where the SDK begins, too
            code = context.get("error_code_override") or parsed["Error"].get("Code")
            raise sdk.client.exceptions.from_code(code)(parsed, model.name)
        return parsed

    async def _route(self, operation: str, params: dict[str, Any]) -> Route | None:
        """Return the route of an operation, with the credentials of the moment.

        The SDK has refreshed them if they would soon run out.
        """
        credentials = await self._sdk.credentials.get_frozen_credentials()
        if credentials != self._credentials:
            self._credentials, self._routes = credentials, {}
        routes = self._routes  # they may be others after the next line
        if operation not in routes:
            routes[operation] = await self._sdk.route(operation, params, credentials)
        return routes[operation]


# Take the thin path where it is sure to be the SDK's own, else the SDK itself.


def thin(client: Any, stack: AsyncExitStack) -> Any:
    """Return a client that stands on the SDK's; its connections close with the stack.

    An SDK client that it cannot stand on is returned as it is.
    """
    try:
        sdk = Sdk(client)
        doubt = sdk.doubt()
    except AttributeError as error:
        doubt = f"this version of the SDK has no {error.name}"
    if doubt:
        service = client.meta.service_model.service_name
        emit(quiet_log(), "wire.fallback_used", service=service, reason=doubt)
        return client
    config = client.meta.config
    connections = Connections(
        config.max_pool_connections,
        config.connect_timeout,
        config.read_timeout,
        sdk.tls,
    )
    stack.push_async_callback(connections.close)
    return ThinClient(sdk, connections)


# What an answer says: a plain success at a glance, all else as the SDK reads it.

#: With these in it the SDK's parser does more than read the JSON: it leaves out what
#: is null, and decodes what is binary: all of that begins alike.
NULL, BINARY = b"null", b'"B'
NAMES = (b'"B"', b'"BS"', b'"BinaryValue"', b'"BinaryListValues"')


def plainly(answer: Answer) -> dict[str, Any] | None:
    """Return what the SDK would; None if only its parser can tell."""
    body = answer.body
    checksum = answer.headers.get("x-amz-crc32")
    if (
        answer.status_code != 200  # noqa: PLR2004 -- the one that AWS answers with
        or (checksum is not None and checksum != str(crc32(body)))
        or NULL in body
        or (BINARY in body and any(name in body for name in NAMES))
    ):
        return None
    try:
        parsed = json.loads(body.decode())
    except ValueError:
        return None
    if not isinstance(parsed, dict):
        return None
    metadata: dict[str, Any] = {
        "HTTPStatusCode": answer.status_code,
        "HTTPHeaders": answer.headers,
    }
    if "x-amzn-requestid" in answer.headers:
        metadata["RequestId"] = answer.headers["x-amzn-requestid"]
    parsed["ResponseMetadata"] = metadata
    return parsed


async def thoroughly(
    sdk: Sdk, model: Any, url: str, answer: Answer
) -> tuple[AioAWSResponse, dict[str, Any]]:
    """Return an answer as the SDK holds it, and what its parser makes of it."""
    response = {
        "headers": answer.headers,
        "status_code": answer.status_code,
        "context": {"operation_name": model.name},
        "body": answer.body,
    }
    parsed = await sdk.parser.parse(response, model.output_shape)
    if answer.status_code >= 300:  # noqa: PLR2004 -- where the SDK begins, too
        await sdk.add_error_fields(response, parsed, model, sdk.parser)
    headers: Any = answer.headers
    return AioAWSResponse(url, answer.status_code, headers, answer), parsed


# Send a request until it is answered, or until the SDK's own rules give it up.

#: An answer, as it was held and as it was read; None: there was none.
Response: TypeAlias = tuple[Any, dict[str, Any]] | None
#: The route with the credentials of the moment; None: there is none.
Renewed: TypeAlias = Callable[[], Awaitable[Route | None]]


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends the requests of one client."""

    sdk: Sdk
    connections: Connections
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]

    async def send(
        self,
        route: Route,
        body: bytes,
        model: Any,
        context: dict[str, Any],
        renewed: Renewed,
    ) -> tuple[Any, dict[str, Any]]:
        """Return the last answer.

        Each further try is signed with the credentials of its own moment.

        Raises:
            BotoCoreError: The last try brought none.
        """
        response: Response = None
        context["retries"] = {"invocation-id": invocation()}
        for attempt in count(1):
            self.sdk.note_attempt(context, attempt, response)
            request = route.request(body, self.clock(), context["retries"])
            response, failure, plain = await self._try(
                route, request, model, first=attempt == 1
            )
            await self.sdk.tell(
                "response-received",
                model,
                response_dict=None,
                parsed_response=response and response[1],
                context=context,
                exception=failure,
            )
            if plain:
                break  # nobody's rules have anything to say of it
            delay = await self._again_after(attempt, response, failure, model, context)
            if delay is None:
                break
            await self.sleep(delay)
            route = await renewed() or route
        if response is None:
            assert failure is not None  # noqa: S101 -- what else came of the try?
            raise failure
        response[1].setdefault("ResponseMetadata", {})["RetryAttempts"] = attempt - 1
        return response

    async def _try(
        self, route: Route, request: bytes, model: Any, *, first: bool
    ) -> tuple[Response, BotoCoreError | None, bool]:
        """Send it once; return its answer or failure, and if it succeeded at once."""
        try:
            answer = await self.connections.send(route, request)
        except BotoCoreError as error:
            return None, error, False
        parsed = plainly(answer) if first else None
        if parsed is not None:
            return (answer, parsed), None, True
        return await thoroughly(self.sdk, model, route.url, answer), None, False

    async def _again_after(
        self,
        attempt: int,
        response: Response,
        failure: BotoCoreError | None,
        model: Any,
        context: dict[str, Any],
    ) -> float | None:
        """Ask the SDK when to try again; None: not at all."""
        said = await self.sdk.tell(
            "needs-retry",
            model,
            response=response,
            endpoint=self.sdk.endpoint,
            operation=model,
            attempts=attempt,
            caught_exception=failure,
            request_dict={"context": context},
        )
        delay: float | None = first_non_none_response(said)
        return delay


def invocation() -> str:
    """Return an id for a request and its repetitions, of the form that the SDK gives.

    It makes an object of each first, at a twentieth of the whole request.
    """
    h = os.urandom(16).hex()
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}"
