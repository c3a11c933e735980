"""Test the pipeline in memory: the same engine, without a model and without waiting."""

from piecework.llm import ModelRequest
from piecework.testing import Piecework

from app import Document, Invoice, invoices, mini

ROWS = [Document(text="Baker: 12.50 EUR"), Document(text="Mill: 4.05 EUR")]


async def test_each_invoice_is_read(piecework: Piecework) -> None:
    run = await piecework.run(invoices, ROWS)

    assert run.results[0] == Invoice(supplier="Baker", total_cents=1250)
    assert run.join_value == 1655


async def test_the_model_can_be_replaced(piecework: Piecework) -> None:
    fake = piecework.fake(mini, Invoice(supplier="any", total_cents=1))

    run = await piecework.run(invoices, ROWS)

    assert (run.join_value, fake.count) == (2, 2)


async def test_an_answer_that_does_not_fit_is_repaired(piecework: Piecework) -> None:
    def answer(request: ModelRequest) -> str:
        cents = -1 if len(request.turns) == 1 else 1
        return f'{{"supplier": "any", "total_cents": {cents}}}'

    fake = piecework.fake(mini, answer)

    run = await piecework.run(invoices, ROWS)

    assert (run.join_value, fake.count) == (2, 4)
