from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from bench import charts, page
from bench.charts import Bar
from verification.bench.records import record, results

SVG = "{http://www.w3.org/2000/svg}"


def parsed(chart_names: str) -> ET.Element:
    return ET.fromstring(chart_names)  # noqa: S314 -- our own


def test_a_bar_is_as_long_as_its_figure() -> None:
    rows = [Bar("ours", 1.0, ours=True), Bar("a < b", 4.0)]

    chart_names = parsed(charts.bars("title", rows, limit=2.0))

    wide = {
        each.get("class"): each.get("width") for each in chart_names.iter(f"{SVG}rect")
    }
    assert {"ours": "105.0", "rival": "420.0"} == wide
    assert "a < b" in [each.text for each in chart_names.iter(f"{SVG}text")]
    assert 1 == len(list(chart_names.iter(f"{SVG}line")))


def test_a_line_runs_over_powers_of_ten() -> None:
    series = {"flat": [(100.0, 2.0), (1_000.0, 2.0), (10_000.0, 2.0)]}

    chart_names = parsed(charts.lines("title", series))

    (path,) = chart_names.iter(f"{SVG}polyline")
    points = [point.split(",") for point in str(path.get("points")).split()]
    xs, ys = ([float(point[n]) for point in points] for n in (0, 1))
    assert xs[1] - xs[0] == xs[2] - xs[1]
    assert 1 == len(set(ys))


def test_an_axis_ends_at_a_round_figure() -> None:
    assert [1, 0.4, 8, 100, 200] == [charts.round_up(n) for n in (0, 0.3, 7.2, 95, 150)]


def test_the_page_and_its_drawings_are_written_from_the_results(tmp_path: Path) -> None:
    found = results(
        record("W1", "piecework", requests_per_task=2.25),
        record("W1", "Celery", requests_per_task=2.1),
        record("W4", "piecework", variant="100 chunks", requests_per_task=2.4),
        record("W4", "piecework", variant="1000 chunks", requests_per_task=2.3),
    )

    page.write(found, tmp_path)

    written = (tmp_path / "performance.md").read_text(encoding="utf-8")
    chart_names = {path.name for path in (tmp_path / "performance").iterdir()}
    assert {"requests.svg", "growth.svg"} == chart_names
    assert all(f"](performance/{name})" in written for name in chart_names)
    assert "| `requests_per_chunk` | <= 2.5 | 2.25 | kept |" in written
    assert "| piecework | 2.25 | 0.00 |" in written
