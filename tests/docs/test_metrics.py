"""The page of metrics names each one of the catalogue, as it is."""

from __future__ import annotations

import re

from piecework.telemetry.metrics import METRICS
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
