"""What one process has counted since its last line of metrics.

A distribution keeps at most as many values as a line may hold, each as likely as any
other: what is said of a busy minute is said of a fair sample, and memory stays flat.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias

from piecework.telemetry.metrics import METRICS_BY_EVENT, Metric

#: Values of one metric in a line, at the most: CloudWatch takes no more.
MAX_VALUES: Final = 100
#: Dependencies that are told of one by one; they are declared in code, so few.
MAX_DEPENDENCIES: Final = 50

Values: TypeAlias = dict[str, float | list[float]]


class Gauge(NamedTuple):
    """What a gauge reads now, of all or of one dependency."""

    name: str
    value: float
    dependency: str = ""


@dataclass(slots=True)
class Samples:
    """A fair sample of a distribution's values."""

    values: list[float] = field(default_factory=list)
    seen: int = 0

    def add(self, value: float, rng: Random) -> None:
        """Take a value, perhaps in the place of another."""
        self.seen += 1
        if len(self.values) < MAX_VALUES:
            self.values.append(value)
        elif (place := rng.randrange(self.seen)) < MAX_VALUES:
            self.values[place] = value


@dataclass(slots=True)
class Meter:
    """Counts events; hands out and forgets what it has counted.

    A gauge that an event told is told again until another one tells better.
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
        """Return what was counted since the last time, by dependency; "": of all."""
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
