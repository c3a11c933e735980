"""A chunk shows what it waits for, and how long."""

from __future__ import annotations

from piecework.domain.moments import iso
from piecework.resilience.breaker import OPEN_CODE
from piecework_orchestrator.cli.views.chunks import error_cell

NOW = 1_700_000_000.0
WAITS = {
    "status": "WAITING",
    "error_code": OPEN_CODE,
    "blocked_on": "model",
    "retry_at": iso(NOW + 42),
}


def test_a_waiting_chunk_names_its_dependency_and_the_time_left() -> None:
    assert f"{OPEN_CODE}: blocked on model, retry in 42s" == error_cell(WAITS, NOW)


def test_any_other_chunk_shows_its_error() -> None:
    assert OPEN_CODE == error_cell(WAITS | {"status": "RUNNING"}, NOW)
    assert "" == error_cell({"status": "PENDING"}, NOW)
