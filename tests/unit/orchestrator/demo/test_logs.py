from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from orchestrator.demo.logs import Logs


def line(**said: Any) -> bytes:
    return json.dumps(said).encode() + b"\n"


def test_a_log_is_read_on_where_the_last_look_ended(tmp_path: Path) -> None:
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


def test_retries_are_counted_by_code_and_only_429s_as_such(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    for code in ("llm.http.timeout", "tool.http.429_rate_limited"):
        logs.take(line(event="call.attempt", outcome="failed", error_code=code))

    assert 2 == logs.retried.total()
    assert 1 == logs.rate_limited


def test_the_95th_percentile_is_of_the_model_s_answers(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    assert logs.p95_s is None

    answered = {"event": "call.attempt", "outcome": "answered", "error_code": None}
    logs.take(line(**answered, dependency="word-addin", duration_ms=9_000))
    for ms in range(1, 101):
        logs.take(line(**answered, dependency="bedrock", duration_ms=ms))

    assert 0.095 == logs.p95_s


def test_claims_and_what_they_remembered_are_kept_by_fence(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.take(line(event="chunk.claimed", chunk=3, fence=2, worker="host-9"))
    logs.take(line(event="chunk.succeeded", chunk=3, fence=2, replayed=11))
    logs.take(line(event="lease.lost", chunk=3, fence=1))

    assert {(3, 2): "host-9"} == logs.claimed
    assert {(3, 2): 11} == logs.replayed
    assert 1 == logs.leases_lost


def test_what_is_no_event_is_passed_over(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    for said in (b"Traceback (most recent call last):", b"[1]", b'{"level": "info"}'):
        logs.take(said)

    assert 0 == logs.retried.total()
