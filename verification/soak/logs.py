"""What the processes wrote: workers' logs, and the messages that were deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from piecework.domain.moments import moment
from verification.soak.record import Ack, LogEvent


def read_logs(folder: Path, pattern: str) -> list[LogEvent]:
    """Read the events of all workers; a killed one may leave half a line."""
    return [
        LogEvent(
            moment(line["timestamp"]), str(line.get("worker", "")), line["event"], line
        )
        for path in sorted(folder.glob(pattern))
        for line in lines_of(path)
        if "timestamp" in line
    ]


def read_acks(path: Path) -> list[Ack]:
    """Read the deletions of messages that belong to a chunk."""
    found = []
    for line in lines_of(path):
        try:
            body = json.loads(line["body"])
            ack = Ack(line["at"], body["job"], body["chunk"], body["gen"])
        except (ValueError, KeyError, TypeError):
            continue
        found.append(ack)
    return found


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a file that are whole JSON objects."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                yield found
