"""Emit events and metrics of the processes, from a catalogue."""

from __future__ import annotations

from piecework.telemetry.emit import Log, emit
from piecework.telemetry.events import BOUND, EVENTS, Event
from piecework.telemetry.logs import (
    configure,
    configure_late,
    configure_loaded,
    guard_loop,
    guard_process,
)
from piecework.telemetry.output import tolerate_output

__all__ = [
    "BOUND",
    "EVENTS",
    "Event",
    "Log",
    "configure",
    "configure_late",
    "configure_loaded",
    "emit",
    "guard_loop",
    "guard_process",
    "tolerate_output",
]
