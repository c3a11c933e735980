"""Read the fields of invoices with a model: the whole program."""

from pydantic import BaseModel

from piecework import pipeline
from piecework.llm import Model, Price, openai_chat
from piecework_examples.invoices.offline import OfflineClient


class Document(BaseModel):
    """The payload: the text of an invoice."""

    text: str


class Invoice(BaseModel):
    """The answer, and the result of the chunk."""

    number: str
    total_cents: int


# With a key: client = openai.AsyncOpenAI()
client = OfflineClient()
mini = Model("gpt-5-mini", openai_chat(client), price=Price(input=0.25, output=2.0))


@pipeline(owner="accounts", runbook="https://example.org/runbooks/invoices")
async def invoices(document: Document) -> Invoice:
    """Read one invoice."""
    return await mini.ask("Read the invoice.", document.text, returns=Invoice)
