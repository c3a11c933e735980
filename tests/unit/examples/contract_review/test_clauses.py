"""Cutting contracts into clauses."""

from __future__ import annotations

from typing import Final

import pytest

from piecework import Document
from piecework_examples.contract_review.clauses import GROUP, Clause, split
from piecework_examples.contract_review.playbook import HERE

BODY: Final = "Neither party shall be liable."


def cut(text: str) -> list[Clause]:
    return list(split(Document("contract.md", text)))


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("## 1. Limitation of Liability", "Limitation of Liability"),
        ("### 1) Limitation of Liability", "Limitation of Liability"),
        ("**1. Limitation of Liability**", "Limitation of Liability"),
        ("1. LIMITATION OF LIABILITY", "LIMITATION OF LIABILITY"),
        ("1. Limitation of Liability.", "Limitation of Liability"),
        ("Section 1 — Limitation of Liability", "Limitation of Liability"),
        ("SECTION 1: LIMITATION", "LIMITATION"),
        ("Article I", "Clause 1"),
        ("## Article I – Limitation", "Limitation"),  # noqa: RUF001 - a usual dash
        ("I. LIMITATION OF LIABILITY", "LIMITATION OF LIABILITY"),
    ],
)
def test_a_heading_of_any_usual_form_starts_a_clause(line: str, heading: str) -> None:
    assert [Clause(number=1, heading=heading, text=BODY)] == cut(f"{line}\n\n{BODY}\n")


def test_numbers_inside_a_clause_do_not_start_another() -> None:
    text = "1. FEES\n1.1 Monthly.\n1. on time\n2. pay in full\n5. WAYS\n2. TERM\nTwo."
    clauses = cut(text)
    assert [(1, "FEES"), (2, "TERM")] == [(c.number, c.heading) for c in clauses]
    assert "2. pay in full" in clauses[0].text


def test_a_text_without_headings_is_grouped_and_nothing_is_lost() -> None:
    paragraphs = [f"Paragraph {n} " + "word " * 60 for n in range(20)]
    clauses = cut("\n\n".join(paragraphs))
    joined = "\n\n".join(clause.text for clause in clauses)
    assert [p.strip() for p in paragraphs] == joined.split("\n\n")
    assert all(len(clause.text) <= GROUP for clause in clauses)
    assert list(range(1, len(clauses) + 1)) == [clause.number for clause in clauses]


def test_an_empty_text_has_no_clauses() -> None:
    assert [] == cut(" \n\n ")


def test_only_the_schedule_of_charges_is_too_long_for_a_small_model() -> None:
    clauses = cut((HERE / "contracts" / "msa-northwind.md").read_text("utf-8"))
    assert [17] == [clause.number for clause in clauses if len(clause.text) > 3_000]
    assert len(clauses[16].text) > 4_000
