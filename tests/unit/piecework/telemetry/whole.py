"""Emit an event with all its fields, for a test that needs only some of them."""

from __future__ import annotations

from typing import Any

from piecework.telemetry import EVENTS, emit
from piecework.telemetry.emit import quiet_log


def emit_whole(name: str, **fields: Any) -> None:
    """Emit an event; each field that the caller omits is 0."""
    emit(quiet_log(), name, **(dict.fromkeys(EVENTS[name].fields, 0) | fields))
