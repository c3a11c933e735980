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
from piecework.telemetry.output import billed_bytes, tolerate_output

__all__ = [
    "BOUND",
    "EVENTS",
    "Event",
    "Log",
    "billed_bytes",
    "configure",
    "configure_late",
    "configure_loaded",
    "emit",
    "guard_loop",
    "guard_process",
    "tolerate_output",
]
