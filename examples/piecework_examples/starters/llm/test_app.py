"""Test the pipeline in memory: the same engine, without a model and without waiting."""

from piecework import TransientError
from piecework.testing import Piecework, failing

from app import Doc, Invoice, ask_model, invoices

ROWS = [Doc(text="Baker: 12.50 EUR"), Doc(text="Mill: 4.05 EUR")]


async def test_each_invoice_is_read(piecework: Piecework) -> None:
    run = await piecework.run(invoices, ROWS)

    assert run.results[0] == Invoice(supplier="Baker", cents=1250)
    assert run.join_value == 1655


async def test_an_overloaded_model_is_asked_again(piecework: Piecework) -> None:
    overloaded = failing("ask_model", TransientError("overloaded"), times=2)

    run = await piecework.run(invoices, ROWS, faults=[overloaded])

    assert len(run.results) == 2


async def test_the_model_can_be_replaced(piecework: Piecework) -> None:
    fake = piecework.fake(ask_model, Invoice(supplier="any", cents=1))

    run = await piecework.run(invoices, ROWS)

    assert (run.join_value, fake.count) == (2, 2)
