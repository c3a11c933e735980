"""The page of metrics names each one of the catalogue, as it is."""

from __future__ import annotations

import re

from piecework.telemetry.metrics import METRICS
from piecework.telemetry.spans import SPANS
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/metrics.md").read_text("utf-8")


def test_the_page_lists_the_catalogue() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (.+) \| (.+) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE
    )

    assert rows == [
        (
            name,
            m.kind,
            m.unit,
            m.when,
            ", ".join(f"`{event}`" for event in m.events) or "read at the line",
        )
        for name, m in METRICS.items()
    ]


def test_the_page_counts_them() -> None:
    assert f"the price of {len(METRICS)} metrics" in PAGE


def test_the_page_of_telemetry_lists_the_spans_with_their_attributes() -> None:
    page = (ROOT / "docs/telemetry.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.+) \| (.+) \|$", page, re.MULTILINE)

    assert rows == [
        (name, row.kind, row.when, ", ".join(f"`{each}`" for each in row.attributes))
        for name, row in SPANS.items()
    ]
