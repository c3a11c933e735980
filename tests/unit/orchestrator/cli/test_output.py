from __future__ import annotations

import io
import json
import math

import pytest
import yaml

from piecework_orchestrator.cli.options import Format
from piecework_orchestrator.cli.output import PIPE_WIDTH, Output, console_of
from piecework_orchestrator.cli.progress import show_progress
from piecework_orchestrator.cli.table import Column, Span, clean, fit_widths

ROWS = [{"id": "a-1", "label": "Überschrift"}, {"id": "b-2", "label": None}]
COLUMNS = [Column("ID", "id"), Column("LABEL", "label", shrinks=True)]


def written(form: Format, rows: list[dict[str, object]]) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    Output(form, out, err).rows(rows, COLUMNS, "no things; next: make one")
    return out.getvalue(), err.getvalue()


def test_a_table_has_titles_and_no_trailing_spaces() -> None:
    expected = "ID   LABEL\na-1  Überschrift\nb-2  -\n"
    assert (expected, "") == written(Format.TABLE, ROWS)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "starts"), [(io.StringIO, ""), (Terminal, "\r\x1b[2K")]
)
def test_a_line_on_the_terminal_of_a_bar_erases_the_bar(
    stream: type[io.StringIO], starts: str
) -> None:
    stdout, stderr = stream(), Terminal()
    out = Output(Format.JSONL, stdout, stderr)

    with show_progress(out, "no worker") as watcher:
        out.line({"chunk": 0})
        watcher.remark("paused: \x1b]0;title\a")
    out.line({"chunk": 1})
    assert "paused: ·]0;title·" in stderr.getvalue()

    assert f'{starts}{{"chunk": 0}}\n{{"chunk": 1}}\n' == stdout.getvalue()


@pytest.mark.parametrize(
    ("form", "text"), [(Format.JSON, "[]\n"), (Format.JSONL, ""), (Format.YAML, "[]\n")]
)
def test_an_empty_list_is_a_valid_document_for_programs(
    form: Format, text: str
) -> None:
    assert (text, "") == written(form, [])


def test_json_yaml_and_lines_have_the_same_content() -> None:
    lines = written(Format.JSONL, ROWS)[0].splitlines()
    assert ROWS == json.loads(written(Format.JSON, ROWS)[0])
    assert ROWS == yaml.safe_load(written(Format.YAML, ROWS)[0])
    assert ROWS == [json.loads(line) for line in lines]


@pytest.mark.parametrize("form", [Format.JSON, Format.JSONL])
def test_numbers_that_json_does_not_have_are_strings(form: Format) -> None:
    rows: list[dict[str, object]] = [{"id": [math.nan, {"a": -math.inf}, 1.5]}]
    text = written(form, rows)[0]
    found = json.loads(text, parse_constant=pytest.fail)
    assert [{"id": ["NaN", {"a": "-Infinity"}, 1.5]}] == (
        found if form is Format.JSON else [found]
    )


def test_a_text_is_never_read_as_markup() -> None:
    assert "[red]x[/red]" in written(Format.TABLE, [{"id": "[red]x[/red]"}])[0]


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert "·[31mred·" == clean("\x1b[31mred\x07")
    assert "\x1b" not in written(Format.TABLE, [{"id": "\x1b]0;title\x07"}])[0]
    text = written(Format.JSONL, [{"id": "\x9b31m\x7f"}])[0]
    assert (text.isprintable(), json.loads(text)["id"]) == (False, "\x9b31m\x7f")
    assert text.strip().isprintable()


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (100, {0: 20, 1: 40, 2: 10}),
        (60, {0: 20, 1: 26, 2: 10}),  # the widest that may shrinks
        (41, {0: 20, 1: 19}),  # the last column drops before a word is cut
        (25, {0: 15, 1: 8}),  # an id is cut when there is nothing else
    ],
)
def test_columns_shrink_then_drop(width: int, expected: dict[int, int]) -> None:
    spans = [Span(20, 20, 0), Span(40, 8, 0), Span(10, 10, 1)]
    assert expected == fit_widths(spans, width)


def test_a_pipe_gets_everything_whatever_its_width() -> None:
    long = "x" * 500
    assert long in written(Format.TABLE, [{"id": "a", "label": long}])[0]


def test_colours_are_for_terminals() -> None:
    assert not console_of(io.StringIO()).is_terminal
    assert "\x1b" not in written(Format.TABLE, [{"id": "FAILED"}])[0]


def test_no_color_switches_colours_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    coloured, plain = Terminal(), Terminal()
    Output(Format.TABLE, coloured).rows([{"id": "FAILED"}], COLUMNS, "")
    monkeypatch.setenv("NO_COLOR", "1")
    Output(Format.TABLE, plain).rows([{"id": "FAILED"}], COLUMNS, "")
    assert "\x1b[31m" in coloured.getvalue()
    assert "\x1b[31m" not in plain.getvalue()


@pytest.mark.parametrize("columns", ["abc", "-4", "0", "", "8.5"])
def test_an_invalid_width_is_ignored(
    monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert PIPE_WIDTH == console_of(io.StringIO()).width
