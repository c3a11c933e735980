"""The gauges of a worker's metrics."""

from __future__ import annotations

from collections.abc import Iterator

from piecework.breaker import BreakerPhase, BreakerState
from piecework.telemetry.meter import Gauge
from workers.station import WorkerServices

#: Seconds after which an open breaker whose open time has passed is no longer counted:
#: without a new call in that time, no chunk uses the dependency any more.
UNTRIED_S = 300.0


def gauges(services: WorkerServices) -> Iterator[Gauge]:
    """Yield the current value of each gauge."""
    yield Gauge("ChunksInProgress", len(services.lease_renewer.leases))
    yield Gauge("CallsInFlight", services.call_limiter.in_use)
    since = services.breakers.clock() - UNTRIED_S
    known = services.breakers.by_name.items()
    open_names = [name for name, each in known if is_open(each.state, since)]
    yield Gauge("BreakersOpen", len(open_names))
    for name in open_names:
        yield Gauge("BreakersOpen", 1, name)


def is_open(state: BreakerState, since: float) -> bool:
    """Return whether the breaker rejects calls, or had a failed probe since `since`."""
    tried_until = max(state.open_until, state.probe_until)
    return state.phase is not BreakerPhase.CLOSED and tried_until > since
