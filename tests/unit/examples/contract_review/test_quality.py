"""The figures of docs/demo.md, computed again; the floors allow small changes."""

from __future__ import annotations

from piecework_examples.contract_review.clauses import Clause
from piecework_examples.contract_review.findings import Severity
from piecework_examples.contract_review.quality import (
    Gold,
    GoldClause,
    GoldFinding,
    compared,
    measured,
    total,
)


def test_the_held_out_contract_reaches_its_floor() -> None:
    (held_out,) = [part for part in measured() if "held out" in part.name]
    assert held_out.accuracy >= 0.85
    assert held_out.precision >= 0.9
    assert held_out.recall >= 0.9


def test_all_contracts_together_reach_their_floor() -> None:
    whole = total(measured())
    assert 66 == whole.clauses
    assert whole.accuracy >= 0.93
    assert whole.precision >= 0.95
    assert whole.recall >= 0.95


def test_a_wrong_category_a_false_alarm_and_a_miss_are_counted() -> None:
    gold = Gold(
        contract="x.md",
        held_out=False,
        clauses=(
            GoldClause(clause=1, category="payment"),
            GoldClause(
                clause=2,
                category="ip",
                findings=(GoldFinding(specialist="venue", severity=Severity.HIGH),),
            ),
        ),
    )
    text = "The vendor acts in its sole discretion."
    quality = compared(
        gold, [Clause(number=1, heading="Governing Law and Jurisdiction", text=text)]
    )
    assert ["1: payment, not disputes", "2: ip, not (no such clause)"] == quality.wrong
    assert {(1, "vagueness", Severity.MEDIUM)} == quality.false_alarms
    assert {(2, "venue", Severity.HIGH)} == quality.misses
    assert (0, 0, 0) == (quality.accuracy, quality.precision, quality.recall)
