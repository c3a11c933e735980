"""What the workers say of themselves: their JSON logs, read as they grow."""

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
    """What the logs in a folder came to so far.

    Attributes:
        retried: How often a call was tried again, by the error's code.
        durations: Milliseconds of each answer of the model.
        claimed: Who won the claim of a chunk, by chunk and fence.
        replayed: Calls that a claim remembered instead of making them again.
        leases_lost: Claims of living workers that ran out: the machine is overloaded.
    """

    folder: Path
    retried: Counter[str] = field(default_factory=Counter)
    durations: list[int] = field(default_factory=list)
    claimed: dict[tuple[int, int], str] = field(default_factory=dict)
    replayed: dict[tuple[int, int], int] = field(default_factory=dict)
    leases_lost: int = 0
    _read: dict[Path, int] = field(default_factory=dict)

    def read(self) -> None:
        """Take in what was written since the last look."""
        for path in sorted(self.folder.glob(WORKER_LOGS)):
            with path.open("rb") as log:
                log.seek(self._read.get(path, 0))
                # A killed worker may leave half a line, a living one writes on it.
                whole, newline, _ = log.read().rpartition(b"\n")
            self._read[path] = self._read.get(path, 0) + len(whole) + len(newline)
            for line in whole.splitlines():
                self.take(line)

    def take(self, line: bytes) -> None:
        """Take in one line; what is not an event of ours is passed over."""
        try:
            said = json.loads(line)
        except ValueError:
            return
        if isinstance(said, dict):
            self._count(said)

    def _count(self, said: dict[str, Any]) -> None:
        match said.get("event"):
            case "call.attempt" if said["outcome"] == "failed":
                self.retried[said["error_code"]] += 1
            case "call.attempt" if said["dependency"] == MODEL:
                if said["outcome"] == "answered":
                    self.durations.append(said["duration_ms"])
            case "chunk.claimed":
                self.claimed[said["chunk"], said["fence"]] = said["worker"]
            case (
                "chunk.succeeded"
                | "chunk.retry_scheduled"
                | "chunk.deferred"
                | "chunk.released"
                | "chunk.cancelled"
                | "chunk.dead_lettered"
            ):
                self.replayed[said["chunk"], said["fence"]] = said["replayed"]
            case "lease.lost":
                self.leases_lost += 1

    @property
    def rate_limited(self) -> int:
        """How many of the retries were asked for with 429."""
        return sum(self.retried[code] for code in RATE_LIMITED)

    @property
    def p95_s(self) -> float | None:
        """Return the seconds within which 19 of 20 answers came; None without any."""
        if not self.durations:
            return None
        ordered = sorted(self.durations)
        return ordered[(len(ordered) * 95 - 1) // 100] / 1000
