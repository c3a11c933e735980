"""Guarantee: the LLM batch of the example has 15 lines, and runs without a key."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from piecework.domain.outcome import DeadLettered
from piecework.testing import Piecework, run_in_memory
from piecework_examples.invoices import app

ROOT = Path(__file__).parents[4]
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


async def test_the_guide_to_models_is_true(
    piecework: Piecework, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "models.md").read_text("utf-8")
    program, users_test = (part.partition("```")[0] for part in fences(page))
    module = ModuleType("models_page")
    monkeypatch.setitem(sys.modules, "models_page", module)
    exec(compile(program, "models.md", "exec"), vars(module))  # noqa: S102 -- our own page
    exec(compile(users_test, "models.md", "exec"), vars(module))  # noqa: S102 -- as above

    run = await run_in_memory(module.invoices, [module.Document(**json.loads(ROWS[0]))])
    assert run.results == {0: module.Invoice(number="LT-2041", total_cents=148_800)}
    await module.test_an_invoice_is_read(piecework)


def fences(page: str) -> list[str]:
    """Return the parts of a page that begin with its code."""
    return page.split("```python\n")[1:]
