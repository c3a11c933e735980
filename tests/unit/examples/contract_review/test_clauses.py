"""Cutting contracts into clauses."""

from __future__ import annotations

from typing import Final

import pytest

from piecework import Document
from piecework_examples.contract_review.clauses import GROUP, Clause, label, split
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


def test_a_heading_may_run_into_its_text() -> None:
    first, second = cut("1. Term of Notice. It is long.\n2. Fees. They are low.")
    assert Clause(number=1, heading="Term of Notice", text="It is long.") == first
    assert Clause(number=2, heading="Fees", text="They are low.") == second


def test_numbers_inside_a_clause_do_not_start_another() -> None:
    text = "1. FEES\n1.1 Monthly.\n1. on time\n2. pay in full\n5. WAYS\n2. TERM\nTwo."
    clauses = cut(text)
    assert [(1, "FEES"), (2, "TERM")] == [(c.number, c.heading) for c in clauses]
    assert "2. pay in full" in clauses[0].text


def test_roman_numbers_are_counted() -> None:
    romans = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI"]
    text = "\n".join(f"ARTICLE {roman}\n\nText.\n" for roman in romans)
    assert list(range(1, 12)) == [clause.number for clause in cut(text)]


def test_a_short_preamble_is_no_clause() -> None:
    assert [1] == [
        c.number for c in cut(f"# Title\n\nBetween A and B.\n\n1. TERM\n{BODY}")
    ]


def test_a_preamble_with_substance_is_clause_0() -> None:
    preamble = "Whereas the parties wish to trade. " * 10
    first = cut(f"# Title\n\n{preamble}\n\n1. TERM\n{BODY}")[0]
    assert (0, "Preamble", preamble.strip()) == (
        first.number,
        first.heading,
        first.text,
    )


def test_a_schedule_is_counted_on_from_the_last_clause() -> None:
    clauses = cut(f"1. TERM\n{BODY}\nSchedule A - Rates\nTen a day.")
    assert [(1, "TERM"), (2, "Schedule A - Rates")] == [
        (clause.number, clause.heading) for clause in clauses
    ]


def test_headings_without_numbers_are_counted() -> None:
    clauses = cut("# Terms\n\n## Fees\n\nTen.\n\n## Term\n\nTwo years.")
    assert [
        Clause(number=1, heading="Fees", text="Ten."),
        Clause(number=2, heading="Term", text="Two years."),
    ] == clauses


def test_a_text_without_headings_is_grouped_and_nothing_is_lost() -> None:
    paragraphs = [f"Paragraph {n} " + "word " * 60 for n in range(20)]
    clauses = cut("\n\n".join(paragraphs))
    joined = "\n\n".join(clause.text for clause in clauses)
    assert [p.strip() for p in paragraphs] == joined.split("\n\n")
    assert all(len(clause.text) <= GROUP for clause in clauses)
    assert list(range(1, len(clauses) + 1)) == [clause.number for clause in clauses]


def test_an_empty_text_has_no_clauses() -> None:
    assert [] == cut(" \n\n ")


def test_a_heading_without_text_keeps_its_words() -> None:
    assert ["Reserved", BODY] == [c.text for c in cut(f"1. Reserved\n2. TERM\n{BODY}")]


def test_a_label_is_short() -> None:
    assert 64 == len(label(Clause(number=1, heading="x" * 200, text="y")))


@pytest.mark.parametrize("name", ["msa-northwind", "nda-larkfield", "dpa-quillmark"])
def test_each_sample_contract_has_22_clauses(name: str) -> None:
    text = (HERE / "contracts" / f"{name}.md").read_text("utf-8")
    assert list(range(1, 23)) == [clause.number for clause in cut(text)]


def test_only_the_schedule_of_charges_is_too_long_for_a_small_model() -> None:
    clauses = cut((HERE / "contracts" / "msa-northwind.md").read_text("utf-8"))
    assert [17] == [clause.number for clause in clauses if len(clause.text) > 3_000]
    assert len(clauses[16].text) > 4_000
