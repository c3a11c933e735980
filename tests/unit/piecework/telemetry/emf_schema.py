"""The published JSON schema of the embedded metric format, with its limits in words.

"Specification: Embedded metric format" of the CloudWatch user guide has the schema of
the `_aws` object. It also has rules for the root. Each named metric is there: a
number, or at most 100 numbers. Each named dimension is there: a string.
"""

from __future__ import annotations

import re
from typing import Any

UNITS = re.compile(
    r"(?:(?:Kilo|Mega|Giga|Tera)?(?:bytes|bits)|Bytes|Bits)(?:/Second)?\Z"
    r"|(?:Seconds|Microseconds|Milliseconds|Percent|Count|Count/Second|None)\Z"
)
#: Bytes of a log event, metrics in a directive, values of one, dimensions in a set.
MOST_BYTES, MOST_METRICS, MAX_VALUES, MOST_DIMENSIONS = 256 * 1024, 100, 100, 30


def faults(document: dict[str, Any], size: int) -> list[str]:
    """Return what is wrong with a document of so many bytes; nothing if it is valid."""
    found = [] if size <= MOST_BYTES else ["it is longer than a log event may be"]
    metadata = document.get("_aws")
    if not isinstance(metadata, dict) or set(metadata) != {
        "Timestamp",
        "CloudWatchMetrics",
    }:
        return [*found, "`_aws` has other members than it must have"]
    if type(metadata["Timestamp"]) is not int:
        found.append("the timestamp is no integer")
    directives = metadata["CloudWatchMetrics"]
    if not isinstance(directives, list) or not directives:
        return [*found, "there is no directive"]
    return found + [f for each in directives for f in of_directive(each, document)]


def of_directive(directive: dict[str, Any], root: dict[str, Any]) -> list[str]:
    """Return what is wrong with a directive and what it points at."""
    if set(directive) != {"Namespace", "Dimensions", "Metrics"}:
        return ["a directive has other members than it must have"]
    found = []
    if not text(directive["Namespace"], 1024) or directive["Namespace"][:1] == ":":
        found.append("the namespace is none")
    for names in directive["Dimensions"]:
        if not 1 <= len(names) <= MOST_DIMENSIONS:
            found.append("a set of dimensions has too few or too many")
        found += [
            f"dimension {name!r} is no text of the root's"
            for name in names
            if not text(name, 250) or not text(root.get(name), 1024)
        ]
    metrics = directive["Metrics"]
    if not 1 <= len(metrics) <= MOST_METRICS:
        found.append("there are too few or too many metrics")
    return found + [f for metric in metrics for f in of_metric(metric, root)]


def of_metric(metric: dict[str, Any], root: dict[str, Any]) -> list[str]:
    """Return what is wrong with a metric."""
    name = metric.get("Name")
    if set(metric) - {"Name", "Unit", "StorageResolution"} or not text(name, 1024):
        return [f"metric {name!r} is not defined as it must be"]
    found = []
    if "Unit" in metric and not UNITS.match(metric["Unit"]):
        found.append(f"{name} has no unit of CloudWatch's")
    value = root.get(str(name))
    values = value if isinstance(value, list) else [value]
    if not 1 <= len(values) <= MAX_VALUES:
        found.append(f"{name} has too few or too many values")
    if any(type(each) not in {int, float} for each in values):
        found.append(f"{name} is no number")
    return found


def text(value: object, most: int) -> bool:
    """Return whether a value is a text of at least one character, and not too many."""
    return isinstance(value, str) and 1 <= len(value) <= most
