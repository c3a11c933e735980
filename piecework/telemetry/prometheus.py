"""Answer Prometheus at `/metrics` with the metrics of the catalogue.

The names are those of CloudWatch in snake case: `ChunksSucceeded` is
`piecework_chunks_succeeded_total`. Counts never reset, as Prometheus expects.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from piecework.errors import UsageError
from piecework.errors.extras import naming_extras
from piecework.telemetry.emf import (
    MAX_PARTS,
    Gauge,
    MetricSettings,
    no_gauges,
    write_metrics,
)
from piecework.telemetry.emit import listening
from piecework.telemetry.metrics import METRICS, METRICS_BY_EVENT, Metric, part

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

#: Other processes of the machine or of the task may read the metrics. The network may
#: not, because the metrics have no password.
LOOPBACK: Final = "127.0.0.1"
#: The upper bounds of a distribution, in seconds: from a fast tool to a slow chunk.
BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0)
_WORD: Final = re.compile(r"(?<!^)(?=[A-Z])")


def prometheus_name(name: str) -> str:
    """Return the name of a metric; Prometheus's client adds `_total` to counts."""
    return f"piecework_{_WORD.sub('_', name).lower()}"


@dataclass(slots=True)
class Histogram:
    """The values of a distribution since the start of the process."""

    total: float = 0.0
    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))

    def add(self, value: float) -> None:
        """Count a value in the first bucket that it fits into."""
        self.total += value
        self.counts[bisect_left(BUCKETS, value)] += 1

    def buckets(self) -> list[tuple[str, float]]:
        """Return the bound of each bucket, and the number of values up to it."""
        bounds = [*map(str, BUCKETS), "+Inf"]
        return list(zip(bounds, accumulate(self.counts), strict=True))


@dataclass(slots=True, eq=False)  # a registry keeps it by identity
class Totals:
    """Counts events since the start of the process; a collector of Prometheus.

    A thread of the server collects while the event loop counts. It copies each table at
    once, which Python does not interrupt.
    """

    app: str
    env: str
    gauges: Callable[[], Iterable[Gauge]] = no_gauges
    _counts: defaultdict[tuple[str, str], float] = field(
        default_factory=lambda: defaultdict(float)
    )
    _values: dict[str, float] = field(default_factory=dict)
    _histograms: defaultdict[str, Histogram] = field(
        default_factory=lambda: defaultdict(Histogram)
    )
    _parts: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def count(self, event: str, fields: Mapping[str, Any]) -> None:
        """Count an event of the catalogue; a listener."""
        for name, metric in METRICS_BY_EVENT.get(event, ()):
            value = metric.amount(fields)
            if value is None:
                continue
            match metric.kind:
                case "count":
                    self._counts[name, self._part(metric, fields)] += value
                case "gauge":
                    self._values[name] = value
                case "distribution":
                    self._histograms[name].add(value)

    def _part(self, metric: Metric, fields: Mapping[str, Any]) -> str:
        """Return the value of the metric's label; those beyond `MAX_PARTS` are one."""
        if not metric.by:
            return ""
        known, found = self._parts[metric.by], part(metric.by, fields)
        if found not in known and len(known) >= MAX_PARTS:
            return "other"
        known.add(found)
        return found

    def collect(self) -> Iterator[Family]:
        """Yield every metric that has a value."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        own = [self.app, self.env]
        counters: dict[str, CounterMetricFamily] = {}
        for (name, value), count in list(self._counts.items()):
            found = METRICS[name]
            if name not in counters:
                labels = ["app", "env", *([found.by] if found.by else [])]
                counters[name] = CounterMetricFamily(
                    prometheus_name(name), found.when, labels=labels
                )
            counters[name].add_metric([*own, *([value] if found.by else [])], count)
        yield from counters.values()
        known = {name: value for name, value, each in self.gauges() if not any(each)}
        for name, now in [*self._values.copy().items(), *known.items()]:
            gauge = GaugeMetricFamily(
                prometheus_name(name), METRICS[name].when, labels=["app", "env"]
            )
            gauge.add_metric(own, now)
            yield gauge
        for name, histogram in list(self._histograms.items()):
            family = HistogramMetricFamily(
                prometheus_name(name), METRICS[name].when, labels=["app", "env"]
            )
            family.add_metric(own, histogram.buckets(), histogram.total)
            yield family


class PrometheusSettings(MetricSettings, Protocol):
    """The settings that metrics need, wherever they go."""

    @property
    def prometheus_port(self) -> int:
        """The port of `/metrics`; 0: none."""
        ...


@asynccontextmanager
async def publish_metrics(
    settings: PrometheusSettings,
    clock: Callable[[], float],
    gauges: Callable[[], Iterable[Gauge]] = no_gauges,
    stream: TextIO | None = None,
) -> AsyncIterator[None]:
    """Write the metrics of the process and answer Prometheus, as the settings say.

    Without a `stream` the lines go to the process's stdout.

    Raises:
        UsageError: As `serve_prometheus`.
    """
    with serve_prometheus(settings, gauges):
        async with write_metrics(settings, clock, gauges, stream):
            yield


@contextmanager
def serve_prometheus(
    settings: PrometheusSettings, gauges: Callable[[], Iterable[Gauge]] = no_gauges
) -> Iterator[None]:
    """Count events inside the context and answer `/metrics`, if a port is set.

    Raises:
        UsageError: `cli.extra.missing`: prometheus-client is not installed;
            `config.prometheus_port.unavailable`.
    """
    port = settings.prometheus_port
    if not port:
        yield
        return
    with naming_extras():
        from prometheus_client import CollectorRegistry, start_http_server
    totals = Totals(settings.app, settings.env, gauges)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(totals)
    try:
        server, thread = start_http_server(port, LOOPBACK, registry)
    except OSError as error:
        message = f"Port {port} of {LOOPBACK} cannot be opened: {error.strerror}."
        code = "config.prometheus_port.unavailable"
        raise UsageError(message, code=code) from error
    try:
        with listening(totals.count):
            yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
