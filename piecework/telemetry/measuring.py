"""Write the metrics of a process to stdout, once a minute and once at its end.

Nothing else goes there as long as it lasts: what a pipeline or a library prints comes
out on stderr, so that no line of metrics is cut in two.
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

#: Seconds between two lines: CloudWatch keeps no finer figures unless it is paid to.
FLUSH_S: Final = 60.0


class MetricSettings(Protocol):
    """The settings that metrics need: whose they are, and whether there are any."""

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
    """Measure what happens inside, if the settings ask for it.

    Without a stream it takes the process's stdout.
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
    """Writes what a meter has counted."""

    settings: MetricSettings
    clock: Callable[[], float]
    gauges: Callable[[], Iterable[Gauge]]
    out: TextIO
    meter: Meter

    async def run(self) -> None:
        """Write for ever."""
        while True:
            await asyncio.sleep(FLUSH_S)
            self.flush()

    def flush(self) -> None:
        """Write what was counted; that nobody takes it is no reason to die."""
        taken = self.meter.take(self.gauges())
        settings = self.settings
        found = lines(taken, settings.app, settings.env, self.clock())
        with suppress(OSError):
            self.out.write("".join(f"{line}\n" for line in found))
            self.out.flush()


@contextmanager
def borrow_stream(stream: TextIO) -> Iterator[TextIO]:
    """Write to a stream that is somebody else's."""
    yield stream


@contextmanager
def take_over_stdout() -> Iterator[TextIO]:
    """Take stdout from everybody else, children included: theirs is stderr now."""
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as ours:
        os.dup2(2, 1)
        try:
            yield ours
        finally:
            sys.stdout.flush()
            os.dup2(ours.fileno(), 1)
