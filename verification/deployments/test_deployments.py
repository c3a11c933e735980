"""The table of the drill, its judge, and a few rows by true workers."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from piecework.domain.chunk import Chunk
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.refs import JobRef
from verification.deployments.changes import ENDS, MOMENTS, changes, deployments
from verification.deployments.drill import End, Run, drill
from verification.deployments.judge import end_of, fault_of

#: Changes whose chunks end in each way that the table has.
FEW = (
    "field-added-keyed",
    "argument-added-keyed",
    "pivot-moved-keyed",
    "stage-renamed-keyed",
    "effect-keyed-to-once",
    "compensation-added-fails-keyed",
    "compensation-removed-fails-keyed",
    "field-required-keyed",
    "value-retyped-keyed",
    "pipeline-renamed-keyed",
)
REF = JobRef("default", "planted").chunk(0)
ONCE = Counter(reserve=1, quote=1, charge=1, send=1)


def test_the_table_has_each_change_with_an_end_for_each_moment() -> None:
    found = [*changes()]
    rows = [*deployments()]

    assert len(found) >= 30
    assert len({change.name for change in found}) == len(found)
    assert len({row.module for row in rows}) == len(rows)
    for row in rows:
        assert len(row.ends) == len(MOMENTS)
        assert {*row.ends, *row.join} <= {*ENDS}
        for text in (row.before, row.after, *row.parts.values()):
            compile(text, row.name, "exec")


def run(status: str = "SUCCEEDED", name: str = "nothing-keyed", **facts: Any) -> Run:
    """Return a run of a row."""
    row = next(row for row in deployments() if row.name == name)
    item = {"status": status, "chunk": 0, "gen": 1, "fence": 1, **facts}
    chunk = Chunk.read(REF, item)
    return Run(row, End.KILLED, "before", chunk, None, ONCE, Counter(), [])


def letter(code: str, result: str, *left: str) -> DeadLetterRow:
    """Return the dead letter of a chunk."""
    item = {
        "error_code": code,
        "compensation": result,
        "uncompensated_stages": [*left],
    }
    return DeadLetterRow(item, REF, 1)


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (run(), ""),
        (replace(run(), acts=ONCE + Counter(charge=1)), "doubled"),
        (replace(run(), acts=ONCE + Counter(quote=1)), "doubled"),
        (replace(run(), acts=ONCE - Counter(charge=1)), "skipped"),
        (replace(run("PENDING")), "silent"),
        (
            run("WAITING", stage_deferrals=1, error_code="runtime.code.changed"),
            "wrong_cause",
        ),
        (
            replace(
                run(
                    "WAITING",
                    "pivot-added-keyed",
                    stage_deferrals=1,
                    error_code="runtime.code.changed",
                ),
                end=End.STAYS,
            ),
            "",  # as after a rollback: version 1 finds what version 2 did
        ),
        (run("SUCCEEDED", "effect-pure-to-keyed"), "silent"),
        (
            replace(run("DEAD"), letter=letter("tool.x.y", "FAILED", "hold")),
            "wrong_cause",
        ),
        (
            replace(
                run("DEAD", "field-required-keyed"),
                letter=letter("runtime.payload.invalid", "ABANDONED", "hold"),
            ),
            "",
        ),
        (
            replace(
                run("DEAD", "field-required-keyed"),
                letter=letter("runtime.payload.invalid", "NOT_NEEDED"),
            ),
            "left",
        ),
    ],
)
def test_each_fault_is_named(found: Run, fault: str) -> None:
    assert fault == fault_of(found)


def test_a_call_in_flight_that_version_1_calls_pure_is_its_own_repetition() -> None:
    twice = ONCE + Counter(charge=1)
    by_both, alone = Counter({"charge@1": 1, "charge@2": 1}), Counter({"charge@1": 2})
    found = replace(run(name="effect-pure-to-keyed"), end=End.STAYS, acts=twice)

    flying = replace(found, moment="flight")
    assert "doubled" == fault_of(replace(flying, by_version=by_both))
    assert "doubled" == fault_of(replace(found, by_version=alone))
    assert not fault_of(replace(flying, by_version=alone))


def test_a_few_changes_end_as_their_rows_say(tmp_path: Path) -> None:
    rows = [*deployments(FEW)]

    runs = asyncio.run(drill(tmp_path, rows, End.KILLED))

    assert {*ENDS} == {end for row in rows for end in row.ends}
    assert len(rows) * len(MOMENTS) == len(runs)
    assert [] == [
        (each.row.name, each.moment, end_of(each), fault_of(each))
        for each in runs
        if fault_of(each)
    ]
