"""A CloudWatch alarm on figures of a minute each, by its documentation."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from verification.scaling.metric_math import Series, evaluate

#: Minutes that an alarm reads beyond those to judge, in case some are missing. The
#: documentation shows two, and says that there may be more.
BEYOND = 2
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "GreaterThanOrEqualToThreshold": operator.ge,
    "GreaterThanThreshold": operator.gt,
    "LessThanOrEqualToThreshold": operator.le,
    "LessThanThreshold": operator.lt,
}


@dataclass(frozen=True, slots=True)
class Source:
    """A metric that an alarm asks for; `queue`: of a queue that a pipeline declares."""

    namespace: str
    name: str
    stat: str
    queue: str = ""


@dataclass(frozen=True, slots=True)
class Alarm:
    """What an alarm looks at, and when it is one."""

    sources: Mapping[str, Source]
    expressions: Mapping[str, str]
    returned: str
    breaches: Callable[[float, float], bool]
    threshold: float
    periods: int
    datapoints: int
    missing: str

    @property
    def window(self) -> int:
        """Minutes of figures that an evaluation needs."""
        return self.periods + BEYOND

    def breaching_value(self, figures: Mapping[Source, Series]) -> float | None:
        """Return the newest value if the alarm is one now, else None."""
        given = {id_: figures[source] for id_, source in self.sources.items()}
        values = evaluate(self.expressions, self.returned, given)
        known = [value for value in values if value is not None][-self.periods :]
        breaching = sum(self.breaches(value, self.threshold) for value in known)
        if self.missing == "breaching":
            breaching += self.periods - len(known)
        if breaching < self.datapoints or not known:
            return None
        return known[-1]


def read_alarm(properties: Mapping[str, Any]) -> Alarm:
    """Return the alarm of a resource's properties."""
    queries = properties["Metrics"]
    periods = int(properties["EvaluationPeriods"])
    (returned,) = (q["Id"] for q in queries if q.get("ReturnData", True))
    return Alarm(
        sources={
            q["Id"]: source(q["MetricStat"]) for q in queries if "MetricStat" in q
        },
        expressions={q["Id"]: q["Expression"] for q in queries if "Expression" in q},
        returned=returned,
        breaches=COMPARISONS[properties["ComparisonOperator"]],
        threshold=float(properties["Threshold"]),
        periods=periods,
        datapoints=int(properties.get("DatapointsToAlarm", periods)),
        missing=properties["TreatMissingData"],
    )


def source(stat: Mapping[str, Any]) -> Source:
    """Return what a query asks for; the simulation has one service."""
    assert stat["Period"] == 60, "the simulation counts by the minute"
    metric = stat["Metric"]
    named = {each["Name"]: each["Value"] for each in metric["Dimensions"]}
    queue = named.get("QueueName", "").partition("-work_")[2]
    return Source(metric["Namespace"], metric["MetricName"], stat["Stat"], queue)
