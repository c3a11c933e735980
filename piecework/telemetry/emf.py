"""CloudWatch's embedded metric format: a line of JSON that becomes metrics.

piecework does not use aws-embedded-metrics 3.5.0. On ECS that library requests the
instance's metadata over HTTP, and by default sends to an agent on TCP port 25888. It
also keeps a list entry for each increment of a count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from piecework.telemetry.meter import Values
from piecework.telemetry.metrics import DEPENDENCY, DIMENSIONS, METRICS, NAMESPACE


def lines(taken: Mapping[str, Values], app: str, env: str, moment: float) -> list[str]:
    """Return a line for the process, and one for each dependency with values."""
    named = {"App": app, "Env": env}
    return [
        line(values, named | ({DEPENDENCY: name} if name else {}), moment)
        for name, values in taken.items()
        if values
    ]


def line(values: Values, dimensions: Mapping[str, str], moment: float) -> str:
    """Return one line: the values at the root, their definition under `_aws`."""
    names = [*DIMENSIONS, *(name for name in dimensions if name not in DIMENSIONS)]
    directive = {
        "Namespace": NAMESPACE,
        "Dimensions": [names],
        "Metrics": [{"Name": name, "Unit": METRICS[name].unit} for name in values],
    }
    metadata: dict[str, Any] = {
        "Timestamp": int(moment * 1000),
        "CloudWatchMetrics": [directive],
    }
    root: dict[str, Any] = {"_aws": metadata, **dimensions}
    root |= {name: round_value(value) for name, value in values.items()}
    return json.dumps(root, separators=(",", ":"))


def round_value(value: float | list[float]) -> float | list[float]:
    """Return a value round_value to three decimals."""
    if isinstance(value, list):
        return [round(each, 3) for each in value]
    return round(value, 3)
