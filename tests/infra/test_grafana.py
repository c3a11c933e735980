"""The dashboard for Grafana shows each metric that a process has at `/metrics`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from piecework.telemetry.events import EVENTS
from piecework.telemetry.metrics import METRICS
from piecework.telemetry.prometheus import Totals

BOARD = json.loads((Path(__file__).parents[2] / "infra/grafana.json").read_text())
PANELS: list[dict[str, Any]] = [p for p in BOARD["panels"] if p["type"] != "row"]
NAMES = re.compile(r"piecework_[a-z_]+")


def answered() -> dict[str, set[str]]:
    """Return the labels of each name at `/metrics`, after one of each event."""
    gauges = [(n, 1.0, {}) for n, m in METRICS.items() if m.kind == "gauge"]
    totals = Totals("acme", "prod", lambda: gauges)  # type: ignore[arg-type,return-value]
    for name, event in EVENTS.items():
        for outcome in ("answered", "failed"):
            fields = dict.fromkeys(event.fields, 1) | {"outcome": outcome, "chunk": 1}
            fields |= {"status": "FAILED", "service": "dynamodb"}
            totals.count(name, fields)
    return {
        sample.name: set(sample.labels)
        for family in totals.collect()
        for sample in family.samples
    }


def test_each_expression_reads_what_a_process_answers_by_its_labels() -> None:
    known = answered()
    for panel in PANELS:
        for target in panel["targets"]:
            (name,) = NAMES.findall(target["expr"])
            assert name in known, panel["title"]
            inside = target["expr"].partition("{")[2].partition("}")[0]
            asked = set(re.findall(r"(\w+)=~", inside))
            by = re.search(r"by \((\w+)\)", target["expr"])
            asked |= {by[1]} if by else set()
            assert asked <= known[name] | {"le"}, panel["title"]
            assert "app" in asked


def test_it_shows_each_metric_of_the_catalogue() -> None:
    shown = {
        NAMES.findall(target["expr"])[0] for p in PANELS for target in p["targets"]
    }
    assert answered().keys() >= shown
    families = {re.sub("_(total|bucket|count|sum)$", "", name) for name in answered()}
    assert families == {re.sub("_(total|bucket)$", "", name) for name in shown}
    assert len(families) == len(METRICS)


def test_no_two_panels_are_in_one_place() -> None:
    places = [panel["gridPos"] for panel in BOARD["panels"]]
    taken = [
        (x, y)
        for at in places
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(ids) == len(set(ids))
    variables = {each["name"] for each in BOARD["templating"]["list"]}
    text = json.dumps(PANELS)
    assert variables == {"datasource", "app", "env"}
    used = set(re.findall(r"\$\{?([a-z_]+)", text.replace("$__rate_interval", "")))
    assert used == variables
