"""Show the progress of a job: as a bar in a notebook or on a terminal, else as lines.

The bars are our own: a program needs no package for them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import IO, Any

from piecework_orchestrator.reading.watch import ProgressSnapshot, Watcher, line_writer

OnProgress = Callable[[ProgressSnapshot], None]
#: Characters of the bar on a terminal.
WIDTH = 24
#: Goes to the begin of the line of a terminal, and empties it.
EMPTY_LINE = "\r\x1b[K"


@contextmanager
def progress_bar(stream: IO[str] | None = None) -> Iterator[Watcher]:
    """Yield a watcher that shows progress and remarks; `stream`: by default stderr."""
    stream = stream or sys.stderr
    if (show := notebook_bar()) is not None:
        yield Watcher(show, remark=line_to(stream))
    elif stream.isatty():
        line = line_to(stream, before=EMPTY_LINE)
        bar = line_to(stream, before=EMPTY_LINE, after="")
        yield Watcher(lambda snapshot: bar(bar_of(snapshot)), remark=line)
        stream.write("\n")
    else:
        line = line_to(stream)
        yield Watcher(line_writer(line), remark=line)


def line_to(
    stream: IO[str], before: str = "", after: str = "\n"
) -> Callable[[str], None]:
    """Return a function that writes a text at once."""

    def write(text: str) -> None:
        stream.write(f"{before}{text}{after}")
        stream.flush()

    return write


def bar_of(snapshot: ProgressSnapshot) -> str:
    """Return the progress as a bar of characters and a line."""
    full = WIDTH * snapshot.ended // max(snapshot.job.chunks, 1)
    return f"[{'#' * full}{'.' * (WIDTH - full)}] {snapshot}"


def notebook_bar() -> OnProgress | None:
    """Return a callback that shows a bar below the cell; None outside a notebook."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if not hasattr(shell, "kernel"):  # the shell of a terminal has none
        return None
    from IPython.display import display

    shown: list[Any] = []

    def show(snapshot: ProgressSnapshot) -> None:
        value, end = snapshot.ended, snapshot.job.chunks
        page = {
            "text/html": f'<progress value="{value}" max="{end}"></progress> '
            f"{escape(str(snapshot))}",
            "text/plain": bar_of(snapshot),
        }
        if shown:
            shown[0].update(page, raw=True)
        else:
            shown.append(display(page, raw=True, display_id=True))

    return show
