"""Ask the ECS agent beside a task; whatever it answers, the work goes on.

Its addresses are in the environment of every task, on link-local loopback: reachable
by this task alone, over plain HTTP, with no proxy in between.
"""

from __future__ import annotations

import json
from typing import Any

import aiohttp

#: Seconds to wait for an answer, and bytes of one that are read.
TIMEOUT_S = 2.0
MAX_BYTES = 65_536


class AgentError(Exception):
    """The agent did not answer, or refused; the message is its reason."""


async def request(url: str, put: dict[str, Any] | None = None) -> dict[str, Any]:
    """Get what a URL of the agent holds, or put something there; return the answer.

    Raises:
        AgentError: There is no answer, or none that can be read, or it is a refusal.
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
        raise AgentError("the answer is no object")
    said = refusal_reason(body) or ("" if reply.ok else f"HTTP {reply.status}")
    if said:
        raise AgentError(said)
    return body


async def read_body(content: aiohttp.StreamReader) -> bytes:
    """Return an answer's body, which may come in pieces; no more than the most."""
    body = b""
    while piece := await content.read(MAX_BYTES - len(body)):
        body += piece
    return body


def refusal_reason(body: dict[str, Any]) -> str:
    """Return the reason that an answer gives for doing nothing; none: it was done."""
    for part, field in (("error", "Code"), ("failure", "Reason")):
        if isinstance(found := body.get(part), dict):
            return str(found.get(field, part))
    return ""
