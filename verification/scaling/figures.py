"""The figures that CloudWatch has of a fleet, each as late as it comes there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

from verification.scaling.alarm import Source
from verification.scaling.metric_math import Series

#: Seconds after its minute at which a figure is there, by its source.
LAG_S = {"AWS/SQS": 60, "AWS/ECS": 60, "ECS/ContainerInsights": 60, "Piecework": 30}
#: Share of the figures that come a minute later than that.
LATE = 0.03


@dataclass(slots=True)
class Figures:
    """Every figure by its source and minute, and when it can be seen."""

    rng: Random
    _known: defaultdict[Source, dict[int, tuple[float, float]]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def note(self, minute: int, values: Mapping[Source, float]) -> None:
        """Note the figures of a minute."""
        for source, value in values.items():
            late = 60 if self.rng.random() < LATE else 0
            seen_at = 60 * (minute + 1) + LAG_S[source.namespace] + late
            self._known[source][minute] = value, seen_at

    def seen(self, needs: Mapping[Source, int], now: float) -> dict[Source, Series]:
        """Return the newest minutes of each source, as they are known now."""
        newest = max((self._newest(source, now) for source in needs), default=0)
        return {
            source: [self._value(source, minute, now) for minute in last(newest, n)]
            for source, n in needs.items()
        }

    def _newest(self, source: Source, now: float) -> int:
        latest = int(now // 60)
        minutes = range(latest, max(-1, latest - 5), -1)
        found = (m for m in minutes if self._value(source, m, now) is not None)
        return next(found, 0)

    def _value(self, source: Source, minute: int, now: float) -> float | None:
        value, seen_at = self._known[source].get(minute, (0.0, float("inf")))
        return value if seen_at <= now else None


def last(newest: int, count: int) -> Iterable[int]:
    """Return so many minutes up to the newest."""
    return range(newest - count + 1, newest + 1)
