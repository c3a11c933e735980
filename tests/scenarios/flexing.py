"""A pipeline that asks a model in the flex lane, and the provider behind its SDK.

The provider speaks Chat Completions to the SDK of OpenAI, without a socket, and writes
a book of all that it bills.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2 as httpx
import openai
from pydantic import BaseModel

from piecework import pipeline
from piecework.llm import Lane, Model, Price, openai_chat

#: Dollars for a million tokens.
PRICE = Price(input=0.25, output=2.0, tiers={"flex": 0.5})


def always(_: int) -> bool:
    """Do what is asked."""
    return True


@dataclass
class FlexProvider:
    """A provider with a flex tier.

    Attributes:
        has_room: Whether the flex tier takes the n-th request for it.
        keeps_tier: Whether the n-th answer is of the tier that was asked for.
        knows_flex: Whether its models have the tier.
        slow_s: Seconds of an answer in the flex tier.
        book: The tier, the tokens in and out of each billed answer.
        asked: The tier of each request; empty: none.
    """

    has_room: Callable[[int], bool] = always
    keeps_tier: Callable[[int], bool] = always
    knows_flex: bool = True
    slow_s: float = 20.0
    book: list[tuple[str, int, int]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    in_flight: int = 0

    @property
    def nano_usd(self) -> int:
        """What it bills, in billionths of a dollar; each answer is rounded."""
        return sum(self.price(*entry) for entry in self.book)

    @property
    def direct_nano_usd(self) -> int:
        """What it would bill for the same answers without the tier."""
        return sum(self.price("default", *tokens) for _, *tokens in self.book)

    @staticmethod
    def price(tier: str, tokens_in: int, tokens_out: int) -> int:
        """Return the price of an answer by its own tariff, in billionths."""
        part = {"flex": 500, "default": 1_000}[tier]
        return part * (tokens_in * 250 + tokens_out * 2_000) // 1_000

    async def handle(self, request: httpx.Request) -> httpx.Response:
        """Answer a request."""
        body = json.loads(request.content)
        tier = body.get("service_tier", "")
        number = len(self.asked)
        self.asked.append(tier)
        if tier and not self.knows_flex:
            said = {"type": "invalid_request_error", "param": "service_tier"}
            return httpx.Response(400, json={"error": {"message": "no", **said}})
        if tier and not self.has_room(number):
            said = {"type": "resource_unavailable", "code": "resource_unavailable"}
            return httpx.Response(429, json={"error": {"message": "full", **said}})
        served = tier if tier and self.keeps_tier(number) else "default"
        tokens = 100 + number % 7, 10 + number % 3
        self.in_flight += 1
        try:
            await asyncio.sleep(self.slow_s if tier else 1.0)
        finally:
            self.in_flight -= 1
        self.book.append((served, *tokens))
        return httpx.Response(200, json=answer(served, *tokens))


def answer(tier: str, tokens_in: int, tokens_out: int) -> dict[str, Any]:
    """Return an answer of Chat Completions."""
    message = {"role": "assistant", "content": "yes"}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    usage = {
        "prompt_tokens": tokens_in,
        "completion_tokens": tokens_out,
        "total_tokens": tokens_in + tokens_out,
    }
    whole = {"id": "x", "object": "chat.completion", "created": 1, "model": "mini-1"}
    return {**whole, "service_tier": tier, "choices": [choice], "usage": usage}


#: The provider of the test that runs; each test sets its own.
current = FlexProvider()


async def handle(request: httpx.Request) -> httpx.Response:
    """Let the provider of the test that runs answer."""
    return await current.handle(request)


client = openai.AsyncOpenAI(
    api_key="k", http_client=httpx.AsyncClient(transport=httpx.MockTransport(handle))
)
mini = Model(
    "mini",
    openai_chat(client),
    model_id="mini-1",
    price=PRICE,
    lane=Lane.flex(within="1h"),
)


class Question(BaseModel):
    """A chunk."""

    n: int


@pipeline
async def flexing(question: Question) -> str:
    """Ask two questions, one after the other."""
    first = await mini.ask("Answer.", f"is {question.n} odd?")
    return first + await mini.ask("Answer.", f"is {question.n} even?")
