"""The report in both forms."""

from __future__ import annotations

import re

import pytest

from piecework_examples.contract_review.clauses import Clause
from piecework_examples.contract_review.report import ReportBuilder, render, segments
from piecework_examples.contract_review.reviewing import review

RISKY = Clause(
    number=1,
    heading="Liability <script>",
    text="The <b>Customer's</b> liability is unlimited. It is in sole discretion.",
)
FAIR = Clause(number=2, heading="Fees", text="Invoices are payable in thirty days.")


def built() -> ReportBuilder:
    builder = ReportBuilder("job-1")
    builder.add(0, review(RISKY))
    builder.add(1, review(FAIR))
    builder.miss(2, "3 Term", "DEAD", "llm.context.overflow")
    return builder


def test_the_report_counts_by_severity_and_names_worst_and_missing() -> None:
    report = built().page().report
    assert {"critical": 1, "high": 0, "medium": 1, "low": 0} == report.findings
    assert ("1 Liability <script>",) == report.worst
    assert ["llm.context.overflow"] == [gap.error_code for gap in report.missing]
    assert 2 == report.clauses


@pytest.mark.attack("markup")
def test_the_page_escapes_what_strangers_wrote() -> None:
    html = render(built().page(), "report.html.j2")
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "<b>Customer" not in html


@pytest.mark.attack("markup")
def test_markdown_shows_what_strangers_wrote_as_it_is() -> None:
    hostile = "![x](http://attacker.example/p) [y](javascript:z)\n| <img src=x> `a`"
    builder = ReportBuilder("job-1")
    builder.add(0, review(RISKY.model_copy(update={"heading": hostile})))
    builder.miss(1, hostile, "DEAD", "llm.context.overflow")
    text = render(builder.page(), "report.md.j2")
    assert "**liability is unlimited**" in text
    assert not re.search(r"<(?:img|b)|(?<!\\)[!\]](?=[\[(])|\n\| &lt;", text)
    assert r"\!\[x\](http://attacker.example/p) \[y\](javascript:z) \| &lt;img" in text


@pytest.mark.attack("markup")
def test_the_page_loads_nothing_from_elsewhere() -> None:
    html = render(built().page(), "report.html.j2")
    assert "<style>" in html
    assert not any(
        word in html for word in ("http:", "https:", "src=", "@import", "<link")
    )


def test_both_forms_name_the_missing_clause_and_its_code() -> None:
    for template in ("report.html.j2", "report.md.j2"):
        text = render(built().page(), template)
        assert "3 Term" in text
        assert "llm.context.overflow" in text


def test_segments_cover_the_text_and_join_what_overlaps() -> None:
    text = "the sole and absolute discretion of"
    parts = segments(text, ("sole and absolute", "absolute discretion"))
    assert [
        ("the ", False),
        ("sole and absolute discretion", True),
        (" of", False),
    ] == parts
    assert [] == segments("", ("x",))
