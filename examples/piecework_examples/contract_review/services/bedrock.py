"""Simulate Bedrock's Converse: its wire format outside, the rules model inside.

It counts its answers by their content. Its count shows whether a worker paid for the
same call twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from piecework_examples.contract_review.config import SMALL_MODEL
from piecework_examples.contract_review.rules_model import answer
from piecework_examples.contract_review.services.faults import Fault, Faults

SMALL_WINDOW: Final = 4_000  # characters
LARGE_WINDOW: Final = 100_000
_TOKEN: Final = 4  # characters, roughly


@dataclass(slots=True)
class BedrockStub:
    """The service and its counts.

    Attributes:
        latency: Seconds that an answer takes.
        retry_after: Seconds in the `Retry-After` header of a throttled call.
        hang: Seconds until a hanging call is given up by the service itself.
        tries: How often each content was asked.
        statuses: How often each content was answered with each status.
    """

    faults: Faults = field(default_factory=Faults)
    latency: float = 0.05
    retry_after: int = 1
    hang: float = 60.0
    tries: Counter[str] = field(default_factory=Counter)
    statuses: dict[str, Counter[str]] = field(default_factory=dict)

    def routes(self) -> list[web.RouteDef]:
        """Return what the service listens to."""
        return [
            web.post("/model/{model_id}/converse", self.converse),
            web.get("/stats", self.show_stats),
        ]

    async def converse(self, request: web.Request) -> web.Response:
        """Answer one call, or fail as drawn."""
        model_id, raw = request.match_info["model_id"], await request.read()
        try:
            asked = json.loads(raw)
            system = "".join(part["text"] for part in asked.get("system", []))
            prompts = [turn["content"][0]["text"] for turn in asked["messages"]]
            prompt, tools = prompts[0], asked.get("toolConfig", {}).get("tools", [])
        except (ValueError, KeyError, IndexError, TypeError):
            return _refused(400, "ValidationException", "The request is malformed.")
        content = content_of(model_id, system, "\n".join(prompts))
        self.tries[content] += 1
        fault = self.faults.draw(content, self.tries[content])
        text = system + prompt
        response = await self._respond(fault, model_id, text, answer(prompt), tools)
        known = "malformed" if fault is Fault.MALFORMED else str(response.status)
        self.statuses.setdefault(content, Counter())[known] += 1
        return response

    async def _respond(
        self,
        fault: Fault | None,
        model_id: str,
        text: str,
        said: str,
        tools: list[dict[str, Any]],
    ) -> web.Response:
        if fault is Fault.HANG:
            await asyncio.sleep(self.hang)
        if fault in {Fault.HANG, Fault.UNAVAILABLE}:
            return _refused(503, "ServiceUnavailableException", "Try again later.")
        if fault is Fault.THROTTLED:
            wait = {"Retry-After": str(self.retry_after)}
            return _refused(429, "ThrottlingException", "Too many requests.", wait)
        if len(text) > _window(model_id):
            why = "Input is too long for requested model."
            return _refused(400, "ValidationException", why)
        await asyncio.sleep(self.latency)
        body = json.dumps(_said(said, text, self.latency, tools))
        if fault is Fault.MALFORMED:
            body = body[: len(body) // 2]
        return web.Response(text=body, content_type="application/json")

    async def show_stats(self, _request: web.Request) -> web.Response:
        """Answer with the counts."""
        return web.json_response(self.stats())

    def stats(self) -> dict[str, Any]:
        """Count calls, statuses, and contents that were answered more than once."""
        by_status: Counter[str] = Counter()
        for counts in self.statuses.values():
            by_status.update(counts)
        good = {content: counts["200"] for content, counts in self.statuses.items()}
        return {
            "calls": self.tries.total(),
            "by_status": dict(sorted(by_status.items())),
            "contents": len(self.tries),
            "answered": sum(1 for times in good.values() if times),
            "answered_twice": sum(1 for times in good.values() if times > 1),
            "per_content": dict(self.tries),
            "per_content_status": {c: dict(n) for c, n in self.statuses.items()},
        }

    def restored(self, stats: dict[str, Any]) -> BedrockStub:
        """Go on counting where an earlier process stopped."""
        self.tries = Counter(stats["per_content"])
        kept = stats["per_content_status"]
        self.statuses = {content: Counter(counts) for content, counts in kept.items()}
        return self


def content_of(model_id: str, system: str, prompt: str) -> str:
    """Return a hash of a request's content without its metadata."""
    content = json.dumps([model_id, system, prompt]).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def _window(model_id: str) -> int:
    return SMALL_WINDOW if model_id == SMALL_MODEL else LARGE_WINDOW


def _said(
    text: str, prompt: str, latency: float, tools: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return an answer as text, or as the input of the tool that the request has."""
    content: dict[str, Any] = {"text": text}
    if tools:
        name = tools[0]["toolSpec"]["name"]
        used = {"toolUseId": "tooluse_1", "name": name, "input": json.loads(text)}
        content = {"toolUse": used}
    read, written = len(prompt) // _TOKEN, len(text) // _TOKEN
    return {
        "output": {"message": {"role": "assistant", "content": [content]}},
        "stopReason": "tool_use" if tools else "end_turn",
        "usage": {
            "inputTokens": read,
            "outputTokens": written,
            "totalTokens": read + written,
        },
        "metrics": {"latencyMs": int(latency * 1000)},
    }


def _refused(
    status: int, name: str, message: str, headers: dict[str, str] | None = None
) -> web.Response:
    return web.json_response(
        {"message": message},
        status=status,
        headers={"x-amzn-errortype": name, **(headers or {})},
    )
