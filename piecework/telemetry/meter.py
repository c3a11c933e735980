"""Count the events of a process since its last line of metrics.

A distribution keeps a uniform random sample of as many values as a line may hold. So
memory is bounded, and the percentiles of a busy minute are unbiased.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias

from piecework.telemetry.metrics import METRICS_BY_EVENT, Metric

#: The largest number of values of a metric in a line that CloudWatch accepts.
MAX_VALUES: Final = 100
#: Dependencies with a line of their own; they are declared in code, so they are few.
MAX_DEPENDENCIES: Final = 50

Values: TypeAlias = dict[str, float | list[float]]


class Gauge(NamedTuple):
    """The present value of a gauge, for the process or for one dependency."""

    name: str
    value: float
    dependency: str = ""


@dataclass(slots=True)
class Samples:
    """A uniform random sample of a distribution's values (reservoir sampling)."""

    values: list[float] = field(default_factory=list)
    seen: int = 0

    def add(self, value: float, rng: Random) -> None:
        """Add a value; in a full sample it may replace another one."""
        self.seen += 1
        if len(self.values) < MAX_VALUES:
            self.values.append(value)
        elif (place := rng.randrange(self.seen)) < MAX_VALUES:
            self.values[place] = value


@dataclass(slots=True)
class Meter:
    """Counts events, and resets when its counts are taken.

    A gauge keeps the value of the last event that set it.
    """

    rng: Random
    _counts: defaultdict[tuple[str, str], float] = field(
        default_factory=lambda: defaultdict(float)
    )
    _samples: defaultdict[str, Samples] = field(
        default_factory=lambda: defaultdict(Samples)
    )
    _gauges: dict[str, float] = field(default_factory=dict)

    def count(self, event: str, fields: Mapping[str, Any]) -> None:
        """Count an event of the catalogue."""
        for name, metric in METRICS_BY_EVENT.get(event, ()):
            value = metric.amount(fields)
            if value is not None:
                self._note(name, metric, value, fields)

    def _note(
        self, name: str, metric: Metric, value: float, fields: Mapping[str, Any]
    ) -> None:
        match metric.kind:
            case "count":
                self._counts["", name] += value
                if metric.by_dependency:
                    self._counts[str(fields.get("dependency")), name] += value
            case "gauge":
                self._gauges[name] = value
            case "distribution":
                self._samples[name].add(value, self.rng)

    def take(self, gauges: Iterable[Gauge] = ()) -> dict[str, Values]:
        """Return and reset the counts by dependency; "" is the whole process."""
        taken: dict[str, Values] = {"": dict(self._gauges)}
        for gauge in gauges:
            taken.setdefault(gauge.dependency, {})[gauge.name] = gauge.value
        for (dependency, name), count in self._counts.items():
            if count:
                taken.setdefault(dependency, {})[name] = count
        taken[""] |= {name: found.values for name, found in self._samples.items()}
        self._counts.clear()
        self._samples.clear()
        return dict(list(taken.items())[: 1 + MAX_DEPENDENCIES])
