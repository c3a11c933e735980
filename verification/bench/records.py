"""Results as a run would leave them, made up."""

from __future__ import annotations

from bench.results import Record, Results

QUIET = {"foreign_cores": 0.0, "seconds": 1.0}


def record(
    workload: str, system: str, *, variant: str = "", error: str = "", **values: float
) -> Record:
    return Record(workload, system, variant, 0, values, {}, QUIET, error)


def results(*records: Record) -> Results:
    return Results("short", {"cores": "2"}, {"python": "3"}, [*records])
