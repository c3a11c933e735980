"""A client that sends the hot operations itself and leaves all others to the SDK.

It answers and raises as the SDK does. What is not a plain success is read by the SDK's
parser, and the SDK's own rules say whether it is tried again. Whoever listens to its
events before-parameter-build, response-received, needs-retry and after-call hears of
each request here, too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from piecework.wire.connections import Connections
from piecework.wire.encoding import encoded
from piecework.wire.route import Route
from piecework.wire.sdk import Sdk
from piecework.wire.sending import Sender

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
