"""Small drawings in SVG: bars and lines, readable on a light and on a dark page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

WIDTH = 720
STYLE = """<style>
text{font:13px system-ui,sans-serif;fill:#24292f}
.title{font-size:15px;font-weight:600}
.axis{stroke:#8c959f;stroke-width:1}
.limit{stroke:#cf222e;stroke-width:1.5;stroke-dasharray:5 4}
.ours{fill:#1a7f37}.rival{fill:#8c959f}
.line0{stroke:#1a7f37}.line1{stroke:#0969da}.line2{stroke:#9a6700}
.line{fill:none;stroke-width:2}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}
.ours{fill:#3fb950}.rival{fill:#6e7681}
.limit{stroke:#ff7b72}
.line0{stroke:#3fb950}.line1{stroke:#58a6ff}.line2{stroke:#d29922}
}</style>"""
LEFT, RIGHT, TOP, ROW, BAR = 210, 90, 36, 26, 16
HEIGHT, FOOT = 300, 46


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: its label, its length, and whether it is Piecework's."""

    name: str
    value: float
    ours: bool = False


def bars(
    title: str, rows: Sequence[Bar], limit: float | None = None, digits: int = 2
) -> str:
    """Draw a bar a row, each with its figure; a limit is a dashed line."""
    most = max([*(row.value for row in rows), limit or 0.0, 1e-9])
    scale = (WIDTH - LEFT - RIGHT) / most
    height = TOP + ROW * len(rows) + 14
    parts = [text(8, 20, title, kind="title")]
    for number, row in enumerate(rows):
        y = TOP + ROW * number
        kind = "ours" if row.ours else "rival"
        size = max(1.0, row.value * scale)
        parts.append(text(LEFT - 8, y + 13, row.name, anchor="end"))
        parts.append(
            f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{size:.1f}"'
            f' height="{BAR}" rx="2"/>'
        )
        parts.append(text(LEFT + size + 6, y + 13, f"{row.value:,.{digits}f}"))
    if limit is not None:
        x = LEFT + limit * scale
        parts.append(line("limit", x, TOP - 6, x, height - 8))
    return wrap_svg(height, title, parts)


def lines(title: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Draw a line a series over an axis of powers of ten."""
    points = [point for each in series.values() for point in each]
    xs, ys = [log10(x) for x, _ in points], [y for _, y in points]
    left, top = 70, 46
    wide, high = WIDTH - left - 150, HEIGHT - top - FOOT
    span, most = max(xs) - min(xs) or 1.0, round_up(max(ys))

    def place(x: float, y: float) -> tuple[float, float]:
        across = left + (log10(x) - min(xs)) / span * wide
        return across, top + high - y / most * high

    parts = [text(8, 20, title, kind="title")]
    parts.append(line("axis", left, top + high, left + wide, top + high))
    parts.append(line("axis", left, top, left, top + high))
    for x in sorted({x for x, _ in points}):
        across, _ = place(x, 0)
        parts.append(text(across, top + high + 20, f"{x:,.0f}", anchor="middle"))
    for part in (0.0, 0.5, 1.0):
        value = most * part
        _, down = place(points[0][0], value)
        parts.append(text(left - 8, down + 4, f"{value:,g}", anchor="end"))
    for number, (name, each) in enumerate(series.items()):
        placed = [place(x, y) for x, y in each]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline class="line line{number % 3}" points="{path}"/>')
        parts.append(text(placed[-1][0] + 8, placed[-1][1] + 4, name))
    return wrap_svg(HEIGHT, title, parts)


def round_up(value: float) -> float:
    """Return the next round figure: where an axis ends."""
    power = 10.0 ** floor(log10(value)) if value > 0 else 1.0
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= value)


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """Return words at a place."""
    named = f' class="{kind}"' if kind else ""
    return (
        f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
        f"{escape(words)}</text>"
    )


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    """Return a straight line."""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line class="{kind}" {ends}/>'


def wrap_svg(height: float, title: str, parts: Sequence[str]) -> str:
    """Return a whole drawing."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}"'
        f' width="{WIDTH}" height="{height:.0f}" role="img"'
        f' aria-label="{escape(title, quote=True)}">'
    )
    return "\n".join([head, STYLE, *parts, "</svg>"]) + "\n"
