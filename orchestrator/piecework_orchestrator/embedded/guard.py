"""Stand in front of MiniStack and refuse the requests of web pages.

MiniStack answers each request, whatever its host, origin and signature. A page in the
user's browser could so read and delete the jobs of this machine. This module runs in
MiniStack's own Python environment, so it imports nothing of Piecework.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

#: The variable with the access key that requests must name; empty: any key.
KEY_VARIABLE: Final = "PIECEWORK_EMBEDDED_KEY"
HEALTH: Final = "/_ministack/health"

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


def load() -> App:
    """Return MiniStack's application behind the guard; the server calls this."""
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [folder for folder in sys.path if folder != here]
    inner: App = import_module("ministack.app").app
    return guarded(inner, os.environ.get(KEY_VARIABLE, ""))


def guarded(inner: App, key: str) -> App:
    """Return an ASGI application that passes permitted requests to another one."""

    async def application(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await inner(scope, receive, send)
            return
        reason = refusal(scope, key) if scope["type"] == "http" else "Not HTTP."
        if reason:
            await refuse(scope, send, reason)
            return
        await inner(scope, receive, without_cross_origin(send))

    return application


def refusal(scope: Message, key: str) -> str:
    """Return why a request is refused; empty if it is permitted."""
    headers = {
        name.lower(): value.decode("latin-1") for name, value in scope["headers"]
    }
    host = urlsplit(f"//{headers.get(b'host', '')}").hostname or ""
    if host not in {"127.0.0.1", "::1", "localhost"}:
        return "The Host header names another machine."
    # SDKs and the AWS CLI send neither header; browsers send one with each request of
    # a page.
    if b"origin" in headers or headers.get(b"sec-fetch-site", "none") != "none":
        return "Web pages have no access."
    query = unquote(scope.get("query_string", b"").decode("latin-1"))
    if not key or (scope["method"], scope["path"], query) == ("GET", HEALTH, ""):
        return ""
    signed = headers.get(b"authorization", "")
    if f"Credential={key}/" in signed or f"X-Amz-Credential={key}/" in query:
        return ""
    return "The access key is not the one of `piecework up`."


async def refuse(scope: Message, send: Send, reason: str) -> None:
    """Answer 403, in the form of the JSON services of AWS."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    body = f'{{"__type": "AccessDeniedException", "message": "{reason}"}}'
    headers = [(b"content-type", b"application/x-amz-json-1.0")]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body.encode()})


def without_cross_origin(send: Send) -> Send:
    """Return a `send` that drops the headers which let pages read an answer."""

    async def filtered(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [
                (name, value)
                for name, value in message.get("headers", ())
                if not name.lower().startswith(b"access-control-")
            ]
            message = {**message, "headers": kept}
        await send(message)

    return filtered
