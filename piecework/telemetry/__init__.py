"""What the processes say of themselves: a catalogue of events, and how they look."""

from __future__ import annotations

from piecework.telemetry.events import BOUND, EVENTS, Event, Log, emit
from piecework.telemetry.logs import configure

__all__ = ["BOUND", "EVENTS", "Event", "Log", "configure", "emit"]
