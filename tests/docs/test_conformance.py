"""The page of conformance: complete, and what each row names exists."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from tests.docs.clauses import CLAUSES, missing_tests
from tests.docs.pages import ROOT, SPAN

PAGE = (ROOT / "docs/conformance.md").read_text("utf-8")
RECORD = re.compile(r"-|\[[^]]+\]\(tables\.md#[\w-]+\)")


class Row(NamedTuple):
    """One requirement, as the page has it."""

    part: str
    number: int
    word: str
    requirement: str
    where: str
    command: str
    record: str

    @property
    def name(self) -> str:
        """The number as the page has it."""
        return f"{self.part}.{self.number}"


def rows() -> Iterator[Row]:
    """Yield the rows of the page, in its order."""
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if re.match(r"\| 0[\w-]+\.\d", line):
            part, _, number = cells[0].rpartition(".")
            yield Row(part, int(number), *cells[1:])


ROWS = list(rows())


def on_every_row(findings: Callable[[Row], Iterable[object]]) -> list[str]:
    """Collect what a check finds in the rows, each with the number of its row."""
    return [f"{row.name}: {finding}" for row in ROWS for finding in findings(row)]


#: How often source 001 says so in each of its sections, counted by hand.
SPECIFIED = {
    "001-1": {"must": 2},
    "001-2": {"must": 4, "default": 4},
    "001-3": {"must": 3, "default": 1},
    "001-4": {"must": 4, "should": 2},
    "001-5": {"must": 5, "must not": 1, "default": 1},
    "001-6": {"must": 4},
    "001-7": {"must": 1},
    "001-8": {"must": 5},
}


def test_every_section_of_the_specification_has_its_rows() -> None:
    counted = {
        part: dict(Counter(row.word for row in of_part if row.word != "says"))
        for part, of_part in groupby(ROWS, lambda row: row.part)
    }

    assert SPECIFIED == {part: counted[part] for part in SPECIFIED}
    assert {"000", "002", "002-G", "002-C", "003"} <= set(counted)
    assert {"gotcha": 8} == counted["002-G"]
    assert {"check": 16} == counted["002-C"]


def test_rows_are_numbered_in_their_order() -> None:
    numbers = [(row.part, row.number) for row in ROWS]
    expected = [
        (part, number)
        for part, of_part in groupby(ROWS, lambda row: row.part)
        for number, _ in enumerate(of_part, 1)
    ]

    assert expected == numbers
    assert len(set(numbers)) == len(numbers)


def missing_places(row: Row) -> list[str]:
    files = SPAN.findall(row.where)
    return [name for name in files if not (ROOT / name).exists()]


def test_every_row_names_files_that_exist() -> None:
    assert [] == [row for row in ROWS if not SPAN.findall(row.where)]
    assert [] == on_every_row(missing_places)


def test_every_row_has_a_test_that_exists() -> None:
    assert {row.name for row in ROWS} == {row for row in CLAUSES if row[0] == "0"}
    assert [] == missing_tests(CLAUSES)


def test_every_row_has_a_command_and_a_row_of_the_tables_or_none() -> None:
    assert [] == [row for row in ROWS if not SPAN.fullmatch(row.command)]
    assert [] == [row for row in ROWS if not RECORD.fullmatch(row.record)]
