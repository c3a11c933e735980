"""The template of the alarms, as the tests of it read it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

from verification.scaling.template import read

ROOT = Path(__file__).parents[2]
PREFIX = "acme-prod-"
RESOURCES: dict[str, dict[str, Any]] = read("alarms", App="acme", Env="prod")[
    "Resources"
]
SCALING: dict[str, dict[str, Any]] = read("scaling", App="acme", Env="prod")[
    "Resources"
]


class Named(NamedTuple):
    """A metric, as an alarm or a widget names it."""

    namespace: str
    name: str
    dimensions: dict[str, str]


def of_type(resources: dict[str, dict[str, Any]], kind: str) -> dict[str, Any]:
    """Return the properties of the resources of a type, by their names."""
    return {
        name: found["Properties"]
        for name, found in resources.items()
        if found["Type"] == f"AWS::{kind}"
    }


ALARMS: dict[str, dict[str, Any]] = {
    **of_type(RESOURCES, "CloudWatch::Alarm"),
    **of_type(RESOURCES, "CloudWatch::CompositeAlarm"),
}
#: Those that call a person.
TELLING = {name: found for name, found in ALARMS.items() if "AlarmActions" in found}
SCALERS = of_type(SCALING, "CloudWatch::Alarm")
PAGES = {page.stem: page for page in sorted((ROOT / "docs/runbooks").glob("*.md"))}
INDEX = PAGES.pop("README").read_text("utf-8")


def page_of(alarm: dict[str, Any]) -> Path:
    """Return the page that an alarm's description links."""
    (link,) = re.findall(r"Runbook: (\S+\.md)", alarm["AlarmDescription"])
    return ROOT / str(link)


def first_command(alarm: dict[str, Any]) -> str:
    """Return the command that an alarm's description begins with."""
    return str(alarm["AlarmDescription"].partition("First: ")[2])


#: A query of Metrics Insights, as far as its names go.
QUERY = re.compile(
    r"SELECT \w+\((?P<name>\w+)\) FROM SCHEMA\((?P<space>\w+),.*"
    r" WHERE (?P<where>.*) GROUP BY"
)


def watched_by(alarm: dict[str, Any]) -> Iterator[Named]:
    """Yield the metrics that an alarm watches."""
    queries = alarm.get("Metrics", [])
    stats = [q["MetricStat"]["Metric"] for q in queries if "MetricStat" in q]
    for metric in stats or [alarm] * ("MetricName" in alarm):
        dimensions = {d["Name"]: d["Value"] for d in metric["Dimensions"]}
        yield Named(metric["Namespace"], metric["MetricName"], dimensions)
    for query in queries:
        text = " ".join(query.get("Expression", "").split())
        if found := QUERY.search(text):
            dimensions = dict(re.findall(r"(\w+) = '([^']*)'", found["where"]))
            yield Named(found["space"], found["name"], dimensions)


def widgets() -> list[dict[str, Any]]:
    """Return what is on the dashboard."""
    body = json.loads(RESOURCES["Dashboard"]["Properties"]["DashboardBody"])
    return cast("list[dict[str, Any]]", body["widgets"])


def shown() -> Iterator[Named]:
    """Yield the metrics that the dashboard shows."""
    for widget in widgets():
        for metric in widget["properties"].get("metrics", []):
            namespace, name, *pairs = (word for word in metric if isinstance(word, str))
            dimensions = dict(zip(pairs[::2], pairs[1::2], strict=True))
            yield Named(namespace, name, dimensions)
