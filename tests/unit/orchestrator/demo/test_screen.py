from __future__ import annotations

import io

import pytest
from rich.console import Console

from piecework_orchestrator.demo.screen import (
    Plain,
    Progress,
    Terminal,
    bars,
    open_screen,
)

PROGRESS = Progress(9, 22, 301, 286, 572, 14, 9, 0.41, 10.0, {"w1": "chunk 12 score"})


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bars_are_shown_on_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(open_screen(Tty()), Terminal)
    assert isinstance(open_screen(io.StringIO()), Plain)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(open_screen(Tty()), Plain)


async def test_plain_output_limits_the_lines_of_progress() -> None:
    stream = io.StringIO()
    screen = Plain(stream)

    screen.show_progress(PROGRESS)
    screen.show_progress(PROGRESS)
    screen.print_line("kill", "w3")
    screen.print_line("", "")
    screen.print_figures("lost=0")

    lines = stream.getvalue().splitlines()
    assert [
        f" progress {PROGRESS.format_line()}",
        " kill     w3",
        "",
        "lost=0",
    ] == lines


def test_a_label_that_the_stream_cannot_write_does_not_end_the_demo() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")

    Plain(stream).print_line("dead", "§ 17")

    stream.seek(0)
    assert " dead     ? 17\n" == stream.read()


def test_the_bars_fit_a_terminal_of_80_columns() -> None:
    console = Console(file=io.StringIO(), width=80)

    with console.capture() as drawn:
        console.print(bars(PROGRESS))

    lines = drawn.get().splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].rstrip().endswith(" 9/22")
    assert lines[2].rstrip().endswith(" 286/572")
    assert "w1" == lines[4].split()[0]


def test_a_long_line_wraps_within_its_column() -> None:
    stream = io.StringIO()
    screen = Terminal(Console(file=stream, width=30))

    screen.print_line("failed", "one two three four five six seven")

    first, second = stream.getvalue().splitlines()
    assert "failed   one two three four" == first.rstrip()
    assert "         five six seven" == second.rstrip()
