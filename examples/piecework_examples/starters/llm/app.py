"""Read invoices with a language model; each answer is checked against a type."""

import json
import re

from piecework import Limits, Results, pipeline
from piecework.llm import Model, ModelRequest, Price
from pydantic import BaseModel, Field

SYSTEM = "Return the supplier and the total of the invoice."


class Document(BaseModel):
    """The payload of one chunk: a line of rows.jsonl."""

    text: str


class Invoice(BaseModel):
    """The answer of the model, and the result of a chunk."""

    supplier: str
    total_cents: int = Field(ge=0)


async def offline(request: ModelRequest) -> str:
    """Stand for a provider: `piecework.llm.openai_chat(AsyncOpenAI())` replaces it."""
    supplier, _, amount = request.text.partition(":")
    cents = int(re.sub(r"\D", "", amount) or "0")
    return json.dumps({"supplier": supplier, "total_cents": cents})


# What your account allows: the whole fleet keeps to it, so the provider refuses nothing.
limits = Limits(requests_per_minute=500)
# Dollars for a million tokens; `offline` states no tokens.
price = Price(input=0.25, output=2.0)
mini = Model("gpt-5-mini", offline, limits=limits, price=price)


@pipeline(owner="your team", runbook="README.md")
async def invoices(document: Document) -> Invoice:
    """Run once for each chunk; a stored answer is not paid for again."""
    return await mini.ask(SYSTEM, document.text, returns=Invoice)


@invoices.join
async def total(results: Results[Invoice]) -> int:
    """Run once, after the last chunk: add up the cents."""
    return sum([result.value.total_cents async for result in results])
