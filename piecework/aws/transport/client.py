"""A client that sends the frequent operations itself and leaves all others to the SDK.

It answers and raises as the SDK does. The SDK's parser reads every answer except a
plain success, and the SDK's rules decide about retries. Listeners of the SDK's events
before-parameter-build, response-received, needs-retry and after-call see each request
here too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from piecework.aws.transport.connections import Connections
from piecework.aws.transport.request import JSON_OPERATIONS, Route, encode
from piecework.aws.transport.sdk import Sdk
from piecework.aws.transport.sender import Sender, is_error
from piecework.telemetry.emit import emit, quiet_log


def thin_client(client: Any, stack: AsyncExitStack) -> Any:
    """Return a thin client on top of an SDK client, or that client itself.

    The SDK client is returned if the thin one might not act as the SDK does. The
    connections are closed with the stack.
    """
    try:
        sdk = Sdk(client)
        reason = sdk.unsupported_reason()
    except AttributeError as error:
        reason = f"this version of the SDK has no {error.name}"
    if reason:
        service = client.meta.service_model.service_name
        emit(quiet_log(), "transport.fallback_used", service=service, reason=reason)
        return client
    config = client.meta.config
    connections = Connections(
        config.max_pool_connections,
        config.connect_timeout,
        config.read_timeout,
        sdk.tls_context,
    )
    stack.push_async_callback(connections.close)
    return ThinClient(sdk, connections)


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
        for name, operation in JSON_OPERATIONS.items():
            if hasattr(sdk.client, name):
                setattr(self, name, partial(self._call, name, sdk.model(operation)))

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the SDK client."""
        return getattr(self._sdk.client, name)

    async def _call(self, name: str, model: Any, /, **params: Any) -> Any:
        """Send one operation and return the parsed answer.

        Raises:
            ClientError: AWS answered with an error.
            BotoCoreError: There was no answer.
        """
        sdk = self._sdk
        context: dict[str, Any] = {"client_config": sdk.meta.config}
        await sdk.emit(
            "before-parameter-build",
            model,
            params=params,
            model=model,
            context=context,
        )
        try:
            body = encode(params)
        except TypeError:  # a value that only the SDK can write
            return await getattr(sdk.client, name)(**params)
        find_route = partial(self._route, model.name, params)
        route = await find_route()
        if route is None:
            return await getattr(sdk.client, name)(**params)
        response, parsed = await self._sender.send(
            route, body, model, context, find_route
        )
        await sdk.emit(
            "after-call",
            model,
            http_response=response,
            parsed=parsed,
            model=model,
            context=context,
        )
        if is_error(response.status_code):
            code = context.get("error_code_override") or parsed["Error"].get("Code")
            raise sdk.client.exceptions.from_code(code)(parsed, model.name)
        return parsed

    async def _route(self, operation: str, params: dict[str, Any]) -> Route | None:
        """Return the route of an operation with the current credentials.

        The SDK refreshes credentials that expire soon.
        """
        credentials = await self._sdk.credentials.get_frozen_credentials()
        if credentials != self._credentials:
            self._credentials, self._routes = credentials, {}
        # Another request may replace them while this one waits.
        routes = self._routes
        if operation not in routes:
            routes[operation] = await self._sdk.route(operation, params, credentials)
        return routes[operation]
