"""Emit events and metrics of the processes, from a catalogue."""

from __future__ import annotations

from piecework.telemetry.emitting import Log, emit
from piecework.telemetry.event import BOUND, Event
from piecework.telemetry.events import EVENTS
from piecework.telemetry.logs import configure
from piecework.telemetry.traces import guard_loop, guard_process

__all__ = [
    "BOUND",
    "EVENTS",
    "Event",
    "Log",
    "configure",
    "emit",
    "guard_loop",
    "guard_process",
]
