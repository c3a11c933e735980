from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from piecework_orchestrator.demo.watch import Logs


def line(**fields: Any) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def test_reading_continues_after_the_last_complete_line(tmp_path: Path) -> None:
    logs, path = Logs(tmp_path), tmp_path / "w1.jsonl"
    retry = line(
        event="call.attempt", outcome="failed", error_code="llm.http.429_rate_limited"
    )

    path.write_bytes(retry + retry[:10])
    logs.read()
    assert 1 == logs.rate_limited

    path.write_bytes(retry + retry)
    logs.read()
    logs.read()
    assert 2 == logs.rate_limited


def test_the_95th_percentile_covers_answered_model_calls(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    assert logs.p95_s is None

    answered = {"event": "call.attempt", "outcome": "answered", "error_code": None}
    logs.add_line(line(**answered, dependency="word-addin", duration_ms=9_000))
    for ms in range(1, 101):
        logs.add_line(line(**answered, dependency="bedrock", duration_ms=ms))

    assert 0.095 == logs.p95_s


def test_claims_and_replayed_calls_are_counted_by_fence(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.add_line(line(event="chunk.claimed", chunk=3, fence=2, worker="host-9"))
    logs.add_line(line(event="chunk.succeeded", chunk=3, fence=2, replayed=11))
    logs.add_line(line(event="lease.lost", chunk=3, fence=1))

    assert {(3, 2): "host-9"} == logs.claimed
    assert {(3, 2): 11} == logs.replayed
    assert 1 == logs.leases_lost
