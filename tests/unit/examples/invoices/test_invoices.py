"""Promise: the LLM batch of the example has 15 lines, and runs without a key."""

from __future__ import annotations

import json
from pathlib import Path

from piecework.domain.outcome import DeadLettered
from piecework.testing import run_in_memory
from piecework_examples.invoices import app
from verification.house import code_lines

ROWS = Path(app.__file__).with_name("rows.jsonl").read_text("utf-8").splitlines()


async def test_rows_become_invoices_and_one_without_fields_a_dead_letter() -> None:
    documents = [app.Document(**json.loads(row)) for row in ROWS]
    run = await run_in_memory(app.invoices, documents)

    assert run.results == {
        0: app.Invoice(number="LT-2041", total_cents=148_800),
        1: app.Invoice(number="Q-77", total_cents=5_990),
    }
    outcome = run.outcomes[2]
    assert isinstance(outcome, DeadLettered)
    assert outcome.failure.code == "llm.output.invalid"
    assert [name for name, _ in run.paid] == ["gpt-5-mini"] * 4  # two for the last row
    assert all(usage.usd > 0 for _, usage in run.paid)


def test_the_program_has_15_lines() -> None:
    assert code_lines(Path(app.__file__)) <= 15
