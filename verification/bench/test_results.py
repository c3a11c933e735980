"""Guarantee: a part of the bench that is run again stands beside the older rest."""

from __future__ import annotations

from dataclasses import replace

from bench.results import Results
from verification.bench.records import record, results


def rows(of: Results) -> list[tuple[str, str, str]]:
    return [(each.workload, each.system, each.made) for each in of.records]


def of_day(day: str, *of: tuple[str, str]) -> Results:
    return results(*(replace(record(*each), made=day) for each in of))


OLD = of_day("22 (a)", ("W1", "piecework"), ("W1", "saq"), ("W3", "piecework"))
NEW = of_day("29 (b)", ("W0", "saq"), ("W0", "piecework"), ("W1", "piecework"))


def test_new_runs_replace_those_of_the_same_system_and_work() -> None:
    joined = NEW.beside(OLD)

    assert [
        ("W0", "piecework", "29 (b)"),
        ("W0", "saq", "29 (b)"),
        ("W1", "piecework", "29 (b)"),
        ("W1", "saq", "22 (a)"),
        ("W3", "piecework", "22 (a)"),
    ] == rows(joined)
    assert {"29 (b)": ["W0"], "22 (a) and 29 (b)": ["W1"], "22 (a)": ["W3"]} == (
        joined.days()
    )


def test_runs_of_another_machine_or_form_are_left_out() -> None:
    assert rows(NEW) == rows(NEW.beside(replace(OLD, machine={"cores": "8"})))
    assert rows(NEW) == rows(NEW.beside(replace(OLD, form="full")))
