"""Read the JSON logs of the workers while they grow."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.demo.machine import WORKER_LOGS

MODEL = "bedrock"
RATE_LIMITED = {"llm.http.429_rate_limited", "tool.http.429_rate_limited"}


@dataclass(slots=True)
class Logs:
    """Counts from the logs in a folder.

    Attributes:
        retried: Number of retried calls, by error code.
        durations: Duration of each answered model call, in milliseconds.
        claimed: The worker that claimed a chunk, by chunk and fence.
        replayed: Calls that a claim replayed from the journal, by chunk and fence.
        leases_lost: Expired leases of running workers, a sign of an overloaded machine.
    """

    folder: Path
    retried: Counter[str] = field(default_factory=Counter)
    durations: list[int] = field(default_factory=list)
    claimed: dict[tuple[int, int], str] = field(default_factory=dict)
    replayed: dict[tuple[int, int], int] = field(default_factory=dict)
    leases_lost: int = 0
    _read: dict[Path, int] = field(default_factory=dict)

    def read(self) -> None:
        """Read the lines written since the last call."""
        for path in sorted(self.folder.glob(WORKER_LOGS)):
            with path.open("rb") as log:
                log.seek(self._read.get(path, 0))
                # A killed worker may leave half a line, a living one writes on it.
                whole, newline, _ = log.read().rpartition(b"\n")
            self._read[path] = self._read.get(path, 0) + len(whole) + len(newline)
            for line in whole.splitlines():
                self.add_line(line)

    def add_line(self, line: bytes) -> None:
        """Count one line; skip a line that is not an event."""
        try:
            fields = json.loads(line)
        except ValueError:
            return
        if isinstance(fields, dict):
            self._count(fields)

    def _count(self, fields: dict[str, Any]) -> None:
        match fields.get("event"):
            case "call.attempt" if fields["outcome"] == "failed":
                self.retried[fields["error_code"]] += 1
            case "call.attempt" if fields["dependency"] == MODEL:
                if fields["outcome"] == "answered":
                    self.durations.append(fields["duration_ms"])
            case "chunk.claimed":
                self.claimed[fields["chunk"], fields["fence"]] = fields["worker"]
            case (
                "chunk.succeeded"
                | "chunk.retry_scheduled"
                | "chunk.deferred"
                | "chunk.released"
                | "chunk.cancelled"
                | "chunk.dead_lettered"
            ):
                self.replayed[fields["chunk"], fields["fence"]] = fields["replayed"]
            case "lease.lost":
                self.leases_lost += 1

    @property
    def rate_limited(self) -> int:
        """Number of retries after a 429."""
        return sum(self.retried[code] for code in RATE_LIMITED)

    @property
    def p95_s(self) -> float | None:
        """Return the 95th percentile of the durations in seconds, or None."""
        if not self.durations:
            return None
        ordered = sorted(self.durations)
        return ordered[(len(ordered) * 95 - 1) // 100] / 1000
