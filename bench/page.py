"""Write docs/performance.md and its charts from a results file and the notes.

`notes.md` holds the prose, above all the causes of missed budgets. All figures of the
page are measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench import budgets, tables
from bench import charts as drawing
from bench.adapters.systems import PIECEWORK, RIVALS
from bench.charts import Bar
from bench.results import FOLDER, Results, load

DOCS = Path(__file__).parents[1] / "docs"
NOTES = Path(__file__).parent / "notes.md"
#: Bar charts: file, workload, figure, title, limit, digits, only systems on AWS.
BARS = (
    ("requests", "W1", "requests_per_task", "AWS requests a task", 2.5, 2, True),
    ("dollars", "W1", "usd_per_million", "Dollars for a million tasks", None, 2, True),
    (
        *("cpu", "W1", "worker_cpu_s_per_1000", "Worker CPU, seconds for 1,000 tasks"),
        *(None, 2, False),
    ),
    (
        "drain",
        "W1",
        "drain_per_s",
        "Tasks a second, one worker process",
        None,
        0,
        False,
    ),
    ("makespan", "W2b", "makespan_x_ideal", "Makespan over the ideal", None, 2, False),
    (
        "paid-twice",
        "W2b",
        "paid_twice",
        "Calls paid for twice, of 2,552",
        None,
        0,
        False,
    ),
)

#: Drawings of lines: file, title, and the figure of each line.
LINES = (
    (
        "growth",
        "requests and units",
        (
            ("requests a chunk", "requests_per_task"),
            ("write units a chunk", "write_units_per_task"),
        ),
    ),
    (
        "memory",
        "memory",
        (("worker MB", "worker_rss_mb"), ("submit MB", "submit_rss_mb")),
    ),
)


def write(results: Results, docs: Path = DOCS) -> None:
    """Write the page and the drawings."""
    folder = docs / "performance"
    folder.mkdir(parents=True, exist_ok=True)
    chart_names = dict(charts(results))
    for name, drawing_ in chart_names.items():
        (folder / f"{name}.svg").write_text(drawing_, encoding="utf-8")
    text = page(results, list(chart_names), NOTES.read_text(encoding="utf-8"))
    (docs / "performance.md").write_text(text, encoding="utf-8")


def stored() -> str:
    """Return the page of the results that `make bench-full` stored last."""
    results = load(FOLDER / "full.json")
    names = [name for name, _ in charts(results)]
    return page(results, names, NOTES.read_text(encoding="utf-8"))


def charts(results: Results) -> Iterator[tuple[str, str]]:
    """Yield the drawings that there are figures for."""
    for name, workload, figure, title, limit, digits, on_aws in BARS:
        rows = list(bars(results, workload, figure, on_aws=on_aws))
        if len(rows) > 1:
            yield name, drawing.bars(f"{workload}: {title}", rows, limit, digits)
    for name, title, figures in LINES:
        series = {label: growth(results, figure) for label, figure in figures}
        kept = {label: points for label, points in series.items() if len(points) > 1}
        if kept:
            yield name, drawing.lines(f"W4: {title} by chunks of a job", kept)


def bars(
    results: Results, workload: str, figure: str, *, on_aws: bool
) -> Iterator[Bar]:
    """Yield a bar for each system, Piecework first."""
    off = {rival.name for rival in RIVALS if not rival.on_aws} if on_aws else set()
    for system in results.systems(workload):
        spread = results.figure(workload, system, figure)
        if spread is not None and system not in off:
            yield Bar(system, spread.median, ours=system == PIECEWORK)


def growth(results: Results, figure: str) -> list[tuple[float, float]]:
    """Return a figure by the chunks of a job."""
    found = []
    for variant in results.variants("W4"):
        spread = results.figure("W4", PIECEWORK, figure, variant)
        if variant.endswith(" chunks") and spread is not None:
            found.append((float(variant.split()[0]), spread.median))
    return found


def page(results: Results, chart_names: list[str], notes: str) -> str:
    """Return the page."""
    own, _, why = notes.partition("\n---\n")
    parts = [own.strip(), "## Budgets", budget_table(results)]
    parts += [
        "## Side by side",
        *(f"![{name}](performance/{name}.svg)" for name in chart_names),
    ]
    for table in tables.tables(results):
        parts += [f"### {table.title}", tables.markdown(table).strip()]
    parts += [why.strip(), "## Environment", describe_environment(results)]
    return "\n\n".join(parts) + "\n"


def budget_table(results: Results) -> str:
    """Return the budgets as a table."""
    heads = ("figure", "limit", "measured", "")
    rows = tuple(
        (
            f"`{each.name}`",
            f"{each.bound} {each.limit:g}",
            "-" if each.measured is None else f"{each.measured:.4g}",
            each.verdict,
        )
        for each in budgets.evaluate_budgets(results)
    )
    return tables.markdown(tables.Table("", heads, rows)).strip()


def describe_environment(results: Results) -> str:
    """Return the machine, the noise and the versions."""
    runs = len(results.records)
    machine = ", ".join(f"{name} {value}" for name, value in results.machine.items())
    known = ", ".join(f"{name} {value}" for name, value in results.versions.items())
    days = "; ".join(f"{', '.join(of)} on {day}" for day, of in results.days().items())
    return (
        f"The {results.form} form: {runs} runs, {days}."
        f" {results.quiet()} runs were quiet: other processes used less than a quarter"
        f" of a core meanwhile (column *foreign*).\n\n"
        f"{describe_aws_server(results)}\n\n"
        f"Machine: {machine}.\n\nVersions: {known}.\n\n"
        f"All figures: [`{LATEST}`](../{LATEST})."
    )


def describe_aws_server(results: Results) -> str:
    """Return which rows used which AWS server."""
    rows: dict[str, dict[str, None]] = {}
    for each in results.records:
        row = " ".join(filter(None, [each.workload, each.system, each.variant]))
        rows.setdefault(each.aws_server, {})[row] = None
    if len(rows) == 1:
        return f"AWS server: {', '.join(rows)}, for all rows."
    told = "; ".join(f"{kind} for {', '.join(names)}" for kind, names in rows.items())
    return f"AWS server: {told}."


LATEST = f"bench/{FOLDER.name}/full.json"
