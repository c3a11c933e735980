"""The gauges of a worker's metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from piecework.resilience.breaker import BreakerPhase, BreakerState
from piecework.telemetry.emf import Gauge
from piecework.telemetry.metrics import BY_FIELD
from piecework_worker.lease import Lease
from piecework_worker.shared_calls import SharedCalls

#: Seconds after which an open breaker whose open time has passed is no longer counted.
#: Without a new call in that time, no chunk uses the dependency any more.
UNTRIED_S = 300.0


def gauges(leases: Mapping[str, Lease], calls: SharedCalls) -> Iterator[Gauge]:
    """Yield the current value of each gauge."""
    yield Gauge("ChunksInProgress", len(leases))
    yield Gauge("CallsInFlight", calls.slots.in_use)
    since = calls.breakers.clock() - UNTRIED_S
    known = list(calls.breakers.by_name.items())  # another thread may ask
    open_names = [name for name, each in known if is_open(each.state, since)]
    yield Gauge("BreakersOpen", len(open_names))
    for name in open_names:
        yield Gauge("BreakersOpen", 1, (BY_FIELD["dependency"], name))


def is_open(state: BreakerState, since: float) -> bool:
    """Return whether the breaker rejects calls, or had a failed probe since `since`."""
    tried_until = max(state.open_until, state.probe_until)
    return state.phase is not BreakerPhase.CLOSED and tried_until > since
