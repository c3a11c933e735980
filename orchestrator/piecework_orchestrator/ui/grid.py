"""Draw the chunks of a job as a grid: one cell a chunk, or one cell for several.

Equal neighbours of a row become one rectangle, so that the grid of a large job stays
small. A chunk that needs attention has a rectangle and a link of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil
from typing import Final

from piecework.domain.states import ChunkStatus

#: Cells at most; a cell of a larger job stands for several chunks.
MAX_CELLS = 10_000
#: Cells in a row of a small job, and of a large one.
NARROW, WIDE = 40, 100
#: The status that a cell of several chunks shows: the first one that a chunk of it has.
BY_URGENCY: Final = (
    ChunkStatus.DEAD,
    ChunkStatus.WAITING,
    ChunkStatus.RUNNING,
    ChunkStatus.PENDING,
    ChunkStatus.CANCELLED,
    ChunkStatus.SUCCEEDED,
)
#: The statuses whose cells are links, while the grid has few of them.
LINKED: Final = frozenset({ChunkStatus.DEAD, ChunkStatus.WAITING, ChunkStatus.RUNNING})
MAX_LINKS = 500


@dataclass(frozen=True, slots=True)
class Rectangle:
    """Cells of one status beside each other.

    Attributes:
        x, y: Column and row of the first cell.
        width: The number of cells.
        chunk: The first chunk of the first cell.
        linked: Whether it leads to that chunk.
    """

    x: int
    y: int
    width: int
    status: str
    chunk: int
    linked: bool


@dataclass(frozen=True, slots=True)
class Grid:
    """The cells of a job; `chunks_per_cell` is 1 up to `MAX_CELLS` chunks."""

    columns: int
    rows: int
    chunks_per_cell: int
    rectangles: Sequence[Rectangle]

    @property
    def lines(self) -> str:
        """The lines between the cells, as the path of an SVG."""
        down = "".join(f"M{x} 0V{self.rows}" for x in range(1, self.columns))
        return down + "".join(f"M0 {y}H{self.columns}" for y in range(1, self.rows))


def make_grid(statuses: Sequence[str]) -> Grid:
    """Return the grid of a job; `statuses`: of each chunk, by number."""
    per_cell = max(1, ceil(len(statuses) / MAX_CELLS))
    cells = [
        most_urgent(statuses[start : start + per_cell])
        for start in range(0, len(statuses), per_cell)
    ]
    columns = NARROW if len(cells) <= NARROW * NARROW else WIDE
    links = sum(cell in LINKED for cell in cells) <= MAX_LINKS
    found = list(rectangles(cells, columns, per_cell, links=links and per_cell == 1))
    return Grid(columns, ceil(len(cells) / columns), per_cell, found)


def most_urgent(statuses: Sequence[str]) -> str:
    """Return the status of a cell that stands for these chunks."""
    if len(statuses) == 1:
        return statuses[0]
    return next((status for status in BY_URGENCY if status in statuses), statuses[0])


def rectangles(
    cells: Sequence[str], columns: int, per_cell: int, *, links: bool
) -> Iterator[Rectangle]:
    """Yield the rectangles, row by row."""
    for start in range(0, len(cells), columns):
        x, y = 0, start // columns
        for status, run in groupby(cells[start : start + columns]):
            width, linked = len(list(run)), links and status in LINKED
            for step in range(width) if linked else (0,):
                chunk = (start + x + step) * per_cell
                size = 1 if linked else width
                yield Rectangle(x + step, y, size, status, chunk, linked)
            x += width
