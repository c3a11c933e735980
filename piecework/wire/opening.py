"""Take the thin path where it is sure to be the SDK's own, else the SDK itself."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from piecework.telemetry.emitting import emit
from piecework.telemetry.quiet import quiet_log
from piecework.wire.client import ThinClient
from piecework.wire.connections import Connections
from piecework.wire.sdk import Sdk


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
