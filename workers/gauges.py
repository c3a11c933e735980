"""What a worker has in hand right now, as its metrics tell it."""

from __future__ import annotations

from collections.abc import Iterator

from piecework.breaker import State
from piecework.telemetry.meter import Gauge
from workers.station import Station


def gauges(station: Station) -> Iterator[Gauge]:
    """Read the gauges of a worker."""
    yield Gauge("ChunksInHand", len(station.heart.holds))
    yield Gauge("CallsInFlight", station.calls.taken)
    circuits = station.circuits.known
    shut = [name for name, k in circuits.items() if k.circuit.state is not State.CLOSED]
    yield Gauge("BreakersOpen", len(shut))
    for name in shut:
        yield Gauge("BreakersOpen", 1, name)
