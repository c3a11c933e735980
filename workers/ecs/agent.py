"""Call the ECS agent of a task; a failure never stops the work.

The agent's addresses are in the environment of every task. They are link-local:
reachable by this task alone, over plain HTTP, without a proxy.
"""

from __future__ import annotations

import json
from typing import Any

import aiohttp

#: Seconds to wait for an answer, and bytes of it that are read.
TIMEOUT_S = 2.0
MAX_BYTES = 65_536


class AgentError(Exception):
    """The agent did not answer, or refused; the message is the reason."""


async def request(url: str, put: dict[str, Any] | None = None) -> dict[str, Any]:
    """GET a URL of the agent, or PUT a document there; return the answer.

    Raises:
        AgentError: The agent did not answer, refused, or sent an unreadable answer.
    """
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
            session.request("PUT" if put else "GET", url, json=put) as reply,
        ):
            body = json.loads(await read_body(reply.content) or b"{}")
    except (aiohttp.ClientError, OSError, ValueError, RecursionError) as error:
        raise AgentError(type(error).__name__) from error
    if not isinstance(body, dict):
        raise AgentError("the answer is not an object")
    reason = refusal_reason(body) or ("" if reply.ok else f"HTTP {reply.status}")
    if reason:
        raise AgentError(reason)
    return body


async def read_body(content: aiohttp.StreamReader) -> bytes:
    """Return the body of an answer, at most `MAX_BYTES`; it may arrive in pieces."""
    body = b""
    while piece := await content.read(MAX_BYTES - len(body)):
        body += piece
    return body


def refusal_reason(body: dict[str, Any]) -> str:
    """Return the reason of a refusal; an empty text means that the agent complied."""
    for part, field in (("error", "Code"), ("failure", "Reason")):
        if isinstance(found := body.get(part), dict):
            return str(found.get(field, part))
    return ""
