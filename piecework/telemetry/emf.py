"""CloudWatch's embedded metric format: a line of JSON that becomes metrics.

piecework does not use aws-embedded-metrics 3.5.0. On ECS that library requests the
instance's metadata over HTTP. By default it sends to an agent on TCP port 25888. It
also keeps a list entry for each increment of a count.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, NamedTuple, Protocol, TextIO, TypeAlias

from piecework.telemetry.emit import listening
from piecework.telemetry.metrics import (
    BY_FIELD,
    DIMENSIONS,
    METRICS,
    METRICS_BY_EVENT,
    NAMESPACE,
    Metric,
    part,
)


def lines(taken: Mapping[Part, Values], app: str, env: str, moment: float) -> list[str]:
    """Return a line for the process, and one for each of its parts with values."""
    named = {"App": app, "Env": env}
    return [
        line(values, named | ({dimension: value} if dimension else {}), moment)
        for (dimension, value), values in taken.items()
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
    """Return a value, rounded to three decimals."""
    if isinstance(value, list):
        return [round(each, 3) for each in value]
    return round(value, 3)


# ── count the events of a process since its last line of metrics ──────────────
#
# A distribution keeps a uniform random sample of as many values as a line may hold. So
# memory is bounded, and the percentiles of a busy minute are unbiased.

#: The largest number of values of a metric in a line that CloudWatch accepts.
MAX_VALUES: Final = 100
#: Parts of one dimension with a line of their own. Dependencies are declared in code,
#: so they are few; a process meets few error codes in a minute.
MAX_PARTS: Final = 50
#: An additional dimension and its value, such as `("Dependency", "model")`.
Part: TypeAlias = tuple[str, str]
WHOLE: Final[Part] = ("", "")

Values: TypeAlias = dict[str, float | list[float]]


class Gauge(NamedTuple):
    """The present value of a gauge, for the process or for one part of it."""

    name: str
    value: float
    part: Part = WHOLE


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
    _counts: defaultdict[tuple[Part, str], float] = field(
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
                self._counts[WHOLE, name] += value
                if metric.by:
                    found = BY_FIELD[metric.by], part(metric.by, fields)
                    self._counts[found, name] += value
            case "gauge":
                self._gauges[name] = value
            case "distribution":
                self._samples[name].add(value, self.rng)

    def take(self, gauges: Iterable[Gauge] = ()) -> dict[Part, Values]:
        """Return and reset the counts of the whole process and of its parts."""
        taken: dict[Part, Values] = {WHOLE: dict(self._gauges)}
        for gauge in gauges:
            taken.setdefault(gauge.part, {})[gauge.name] = gauge.value
        for (each, name), count in self._counts.items():
            if count:
                taken.setdefault(each, {})[name] = count
        taken[WHOLE] |= {name: found.values for name, found in self._samples.items()}
        self._counts.clear()
        self._samples.clear()
        return few(taken)


def few(taken: Mapping[Part, Values]) -> dict[Part, Values]:
    """Return the values of the process and of `MAX_PARTS` parts of each dimension."""
    kept: dict[Part, Values] = {}
    seen: Counter[str] = Counter()
    for found, values in taken.items():
        seen[found[0]] += 1
        if seen[found[0]] <= MAX_PARTS:
            kept[found] = values
    return kept


# ── write the metrics of a process to stdout ──────────────────────────────────
#
# Meanwhile everything that a pipeline or a library prints goes to stderr. So no print
# splits a line of metrics.

#: Seconds between two lines: the resolution of CloudWatch's standard metrics.
FLUSH_S: Final = 60.0


class MetricSettings(Protocol):
    """The settings that metrics need: their dimensions and the switch."""

    @property
    def app(self) -> str:
        """The application."""
        ...

    @property
    def env(self) -> str:
        """The environment."""
        ...

    @property
    def metrics(self) -> str:
        """`emf`, or `off`."""
        ...


def no_gauges() -> Iterable[Gauge]:
    """Read nothing."""
    return ()


@asynccontextmanager
async def write_metrics(
    settings: MetricSettings,
    clock: Callable[[], float],
    gauges: Callable[[], Iterable[Gauge]] = no_gauges,
    stream: TextIO | None = None,
) -> AsyncIterator[None]:
    """Count events inside the context and write them, if the settings enable it.

    Without a `stream` the lines go to the process's stdout.
    """
    if settings.metrics == "off":
        yield
        return
    with borrow_stream(stream) if stream else take_over_stdout() as out:
        meter = Meter(Random())
        writer = Writer(settings, clock, gauges, out, meter)
        with listening(meter.count):
            each_minute = asyncio.create_task(writer.run())
            try:
                yield
            finally:
                each_minute.cancel()
                writer.flush()


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes the counts of a meter."""

    settings: MetricSettings
    clock: Callable[[], float]
    gauges: Callable[[], Iterable[Gauge]]
    out: TextIO
    meter: Meter

    async def run(self) -> None:
        """Write every minute until cancelled."""
        while True:
            await asyncio.sleep(FLUSH_S)
            self.flush()

    def flush(self) -> None:
        """Write the counts; a failed write must not end the process."""
        taken = self.meter.take(self.gauges())
        settings = self.settings
        found = lines(taken, settings.app, settings.env, self.clock())
        with suppress(OSError):
            self.out.write("".join(f"{line}\n" for line in found))
            self.out.flush()


@contextmanager
def borrow_stream(stream: TextIO) -> Iterator[TextIO]:
    """Yield a stream that the caller owns."""
    yield stream


@contextmanager
def take_over_stdout() -> Iterator[TextIO]:
    """Yield the process's stdout, and point descriptor 1 at stderr meanwhile.

    So child processes and prints of other code write to stderr.
    """
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as stdout:
        os.dup2(2, 1)
        try:
            yield stdout
        finally:
            sys.stdout.flush()
            os.dup2(stdout.fileno(), 1)
