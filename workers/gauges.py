"""What a worker has in hand right now, as its metrics tell it."""

from __future__ import annotations

from collections.abc import Iterator

from piecework.breaker import Circuit, State
from piecework.telemetry.meter import Gauge
from workers.station import Station

#: Seconds after which an open breaker whose time is over counts for nothing: nobody has
#: tried again, for nobody needs that dependency any more.
UNTRIED_S = 300.0


def gauges(station: Station) -> Iterator[Gauge]:
    """Read the gauges of a worker."""
    yield Gauge("ChunksInHand", len(station.heart.holds))
    yield Gauge("CallsInFlight", station.calls.taken)
    since = station.circuits.clock() - UNTRIED_S
    known = station.circuits.known.items()
    shut = [name for name, each in known if is_shut(each.circuit, since)]
    yield Gauge("BreakersOpen", len(shut))
    for name in shut:
        yield Gauge("BreakersOpen", 1, name)


def is_shut(circuit: Circuit, since: float) -> bool:
    """Say whether calls are refused, or were tried in vain since that moment."""
    tried_until = max(circuit.until, circuit.probed_until)
    return circuit.state is not State.CLOSED and tried_until > since
