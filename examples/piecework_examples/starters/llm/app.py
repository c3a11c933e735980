"""Read invoices with a language model; each answer is checked against a type."""

import asyncio
import re

from piecework import Dependency, Results, pipeline
from pydantic import BaseModel

SYSTEM = "Return the supplier and the amount of the invoice as JSON."


class Doc(BaseModel):
    """The payload of one chunk: a line of rows.jsonl."""

    text: str


class Invoice(BaseModel):
    """The answer of the model, and the result of a chunk."""

    supplier: str
    cents: int


# A new version of the prompt is a new key: its calls are made again.
model = Dependency("model", timeout=60, version="prompt-1")


@model.call  # retried, and not paid again after a crash
async def ask_model(system: str, text: str) -> Invoice:
    """Validate the answer; one that does not validate is asked for again."""
    return Invoice.model_validate_json(await complete(system, text))


async def complete(system: str, text: str) -> str:
    """Stand for a model; put a request of your provider's SDK here."""
    del system  # the provider would be sent it, with the text
    await asyncio.sleep(0.1)
    supplier, _, amount = text.partition(":")
    digits = re.sub(r"\D", "", amount) or "0"
    return Invoice(supplier=supplier, cents=int(digits)).model_dump_json()


@pipeline
async def invoices(doc: Doc) -> Invoice:
    """Run once for each chunk; the result is stored."""
    return await ask_model(SYSTEM, doc.text)


@invoices.join
async def total(results: Results[Invoice]) -> int:
    """Run once, after the last chunk: add up the cents."""
    return sum([result.value.cents async for result in results])
