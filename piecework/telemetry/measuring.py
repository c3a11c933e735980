"""Write the metrics of a process to stdout, once a minute and once at its end.

Meanwhile everything that a pipeline or a library prints goes to stderr, so that no
print splits a line of metrics.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol, TextIO

from piecework.telemetry.emf import lines
from piecework.telemetry.emitting import listening
from piecework.telemetry.meter import Gauge, Meter

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
