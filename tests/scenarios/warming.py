"""A pipeline that asks a model with one long system text, and a provider with a cache.

The provider speaks Messages to the SDK of Anthropic, without a socket. It keeps a
prefix that is marked, from the moment at which it begins to answer.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import anthropic
import httpx2 as httpx
from pydantic import BaseModel

from piecework import pipeline
from piecework.llm import Model, Price, anthropic_messages

#: Tokens of the prefix, and of what differs.
PREFIX, REST, OUT = 5_000, 40, 10
#: Seconds until an answer begins, until it ends, and for which a prefix is kept.
BEGINS_S, ENDS_S, KEPT_S = 2.0, 5.0, 300.0
PRICE = Price(input=1.0, output=5.0, cached_input=0.1, cache_write=1.25)


@dataclass
class CachingProvider:
    """A provider with a cache of prefixes, and a book of what it bills.

    Attributes:
        book: Tokens of each answer: read from the cache, written to it, and neither.
        fails: How many of the first requests it is too busy for.
        most: The most requests in flight.
    """

    book: list[tuple[int, int, int]] = field(default_factory=list)
    fails: int = 0
    asked: int = 0
    in_flight: int = 0
    most: int = 0
    used_at: dict[str, float] = field(default_factory=dict)

    async def handle(self, request: httpx.Request) -> httpx.Response:
        """Answer a request."""
        self.asked += 1
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            if self.asked <= self.fails:
                await asyncio.sleep(BEGINS_S)
                error = {"type": "overloaded_error", "message": "busy"}
                return httpx.Response(529, json={"type": "error", "error": error})
            tokens = await self._tokens(json.loads(request.content))
            await asyncio.sleep(ENDS_S - BEGINS_S)
        finally:
            self.in_flight -= 1
        self.book.append(tokens)
        return httpx.Response(200, json=answer(*tokens))

    async def _tokens(self, body: dict[str, Any]) -> tuple[int, int, int]:
        """Return what the prompt costs, once the answer begins."""
        now, system = asyncio.get_running_loop().time, body["system"]
        key = json.dumps([body.get("tools"), system])
        is_marked = isinstance(system, list) and "cache_control" in system[-1]
        is_kept = key in self.used_at and now() < self.used_at[key] + KEPT_S
        await asyncio.sleep(BEGINS_S)
        if not is_marked:
            return 0, 0, PREFIX + REST
        self.used_at[key] = now()
        return (PREFIX, 0, REST) if is_kept else (0, PREFIX, REST)

    @property
    def nano_usd(self) -> int:
        """What it bills by its own tariff, in billionths of a dollar."""
        return sum(
            100 * read + 1_250 * written + 1_000 * fresh + 5_000 * OUT
            for read, written, fresh in self.book
        )


def answer(read: int, written: int, fresh: int) -> dict[str, Any]:
    """Return an answer of Messages."""
    usage = {
        "input_tokens": fresh,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "output_tokens": OUT,
    }
    whole = {"id": "x", "type": "message", "role": "assistant", "model": "m"}
    content = [{"type": "text", "text": "yes"}]
    return {**whole, "content": content, "stop_reason": "end_turn", "usage": usage}


#: The provider of the test that runs; each test sets its own.
current = CachingProvider()


async def handle(request: httpx.Request) -> httpx.Response:
    """Let the provider of the test that runs answer."""
    return await current.handle(request)


client = anthropic.AsyncAnthropic(
    api_key="k", http_client=httpx.AsyncClient(transport=httpx.MockTransport(handle))
)
caller = anthropic_messages(client)
warmed = Model("warmed", caller, model_id="m", price=PRICE, warm=True)


class Question(BaseModel):
    """A chunk."""

    n: int


@pipeline
async def warming(question: Question) -> str:
    """Ask two questions at once, about the same long text."""
    asked = [warmed.ask("The long text.", f"{question.n}, {n}?") for n in range(2)]
    return "".join(await asyncio.gather(*asked))
