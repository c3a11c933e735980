"""Use the client of a provider's SDK by its methods alone: no SDK is a dependency.

A client may be asynchronous, or plain: a plain one is called in a thread.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

#: The hosts whose providers have a name of their own in keys and price lists.
HOSTS: Final = {"api.openai.com": "openai", "api.anthropic.com": "anthropic"}


def provider_of(client: Any, default: str) -> str:
    """Return the name of the provider behind a client, by the host of its address."""
    host = urlsplit(str(getattr(client, "base_url", "") or "")).hostname
    return HOSTS.get(host, host) if host else default


async def open_client(client: Any) -> Any:
    """Return the client itself, or what the function for it returns."""
    return await client() if inspect.isroutine(client) else client


async def without_retries(client: Any) -> Any:
    """Return the client of an SDK with its own retries switched off."""
    opened = await open_client(client)
    options = getattr(opened, "with_options", None)
    return opened if options is None else options(max_retries=0)


async def invoke(method: Callable[..., Any], body: Mapping[str, Any]) -> Any:
    """Call a method of a client; a plain one runs in a thread."""
    if inspect.iscoroutinefunction(inspect.unwrap(method)):
        return await method(**body)
    answer = await asyncio.to_thread(method, **body)
    return await answer if inspect.isawaitable(answer) else answer


async def bytes_of(manager: Any) -> AsyncIterator[bytes]:
    """Yield the parts of a response that a client streams; close it at the end."""
    if hasattr(manager, "__aenter__"):
        async with manager as response:
            async for each in response.iter_bytes():
                yield each
        return
    response = await asyncio.to_thread(manager.__enter__)
    try:
        async for each in in_thread(response.iter_bytes()):
            yield each
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)


async def items_of(
    client: Any, lister: Callable[..., Any], most: int
) -> AsyncIterator[Any]:
    """Yield each item that a client lists, page after page of at most so many."""
    if is_async(client):
        async for each in lister(limit=most):
            yield each
        return
    async for each in in_thread(iter(await asyncio.to_thread(lister, limit=most))):
        yield each


def is_async(client: Any) -> bool:
    """Return whether the methods of a client are awaited."""
    return hasattr(client, "__aenter__")


async def in_thread(iterator: Any) -> AsyncIterator[Any]:
    """Yield each item of an iterator that blocks."""
    end = object()
    while (item := await asyncio.to_thread(next, iterator, end)) is not end:
        yield item
