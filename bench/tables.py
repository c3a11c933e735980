"""The tables of a run: for a terminal, and for the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.adapters.systems import PIECEWORK, PIECEWORK_EXCLUSIONS, RIVALS
from bench.results import Record, Results, Spread


@dataclass(frozen=True, slots=True)
class Table:
    """Heads, and rows of cells."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


#: Heads, each with the figure below it and its digits.
W1 = (
    ("tasks", "tasks", 0),
    ("req/task", "requests_per_task", 2),
    ("WCU/task", "write_units_per_task", 2),
    ("RCU/task", "read_units_per_task", 2),
    ("$/M", "usd_per_million", 2),
    ("CPU s/1k", "worker_cpu_s_per_1000", 2),
    ("server s/1k", "server_cpu_s_per_1000", 2),
    ("emulator s/1k", "emulator_cpu_s_per_1000", 2),
    ("drain/s", "drain_per_s", 0),
    ("submit/s", "submit_per_s", 0),
    ("MB", "worker_rss_mb", 0),
    ("lost", "lost", 0),
    ("twice", "repeated", 0),
)
W2 = (
    ("makespan s", "makespan_s", 2),
    ("x ideal", "makespan_x_ideal", 2),
    ("x floor", "makespan_x_tries", 2),
    ("submit to first call s", "first_call_s", 3),
    ("paid twice", "paid_twice", 0),
    ("executions", "executions", 0),
    ("requests", "requests", 0),
    ("lost", "lost", 0),
)
W3 = (
    ("not done in 75 s", "lost", 0),
    ("started again", "started_again", 0),
    ("twice", "repeated", 0),
    ("in progress", "in_progress", 0),
    ("recovery s", "recovery_s", 1),
    ("first task s", "first_again_s", 2),
)
W4 = (
    ("chunks", "tasks", 0),
    ("req/chunk", "requests_per_task", 3),
    ("WCU/chunk", "write_units_per_task", 2),
    ("submit/s", "submit_per_s", 0),
    ("drain/s", "drain_per_s", 0),
    ("finish s", "finish_s", 2),
    ("CPU s/1k", "worker_cpu_s_per_1000", 2),
    ("worker MB", "worker_rss_mb", 0),
    ("submit MB", "submit_rss_mb", 0),
    ("jobs/s", "jobs_per_s", 1),
    ("lost", "lost", 0),
    ("twice", "repeated", 0),
)
W5 = (
    ("submit to first call s", "submit_to_first_call_s", 2),
    ("last settle to job end s", "last_settle_to_end_s", 2),
    ("cancel to quiesced s", "cancel_to_quiesced_s", 2),
    ("kill to takeover s", "takeover_s", 2),
    ("lease s", "lease_s", 0),
    ("show CPU s", "show_cpu_s", 2),
    ("show MiB", "show_rss_mib", 0),
    ("show requests", "show_requests", 0),
    ("$/M beside the submit", "long_chunks_usd_per_million", 2),
    ("RCU/chunk", "long_chunks_read_units", 2),
)
WORKLOADS = (
    (
        "W0",
        "chunks of 20 calls in turn of 0.5 s, answers of 2 KB, 64 chunks in progress",
        W2,
    ),
    ("W1", "no-op tasks, 32 in progress, one worker process", W1),
    ("W2a", "2,552 calls of 50 ms, one task per call, 64 in flight", W2),
    ("W2b", "22 chunks of 116 calls of 50 ms, one task per chunk, 64 in flight", W2),
    ("W3", "kill -9 amid the tasks of 20 ms, lease 5 s", W3),
    ("W4", "Piecework as jobs and workers grow", W4),
    ("W5", "Piecework's latencies", W5),
)


def tables(results: Results) -> list[Table]:
    """Return a table for each workload that was run."""
    found = []
    for workload, title, columns in WORKLOADS:
        rows = tuple(rows_of(results, workload, columns))
        if rows:
            heads = ("", *(head for head, _, _ in columns), "foreign")
            found.append(drop_empty_columns(Table(f"{workload}: {title}", heads, rows)))
    return [*found, *operations(results)]


def operations(results: Results) -> Iterator[Table]:
    """Yield the AWS requests of Piecework in W1, by operation."""
    runs = results.runs_of("W1", PIECEWORK)
    if not runs or not runs[-1].counts:
        return
    tasks = runs[-1].values["tasks"]
    rows = tuple(
        (name, *(f"{amount / tasks:,.3f}" for amount in row[:3]))
        for name, row in runs[-1].counts.items()
    )
    heads = ("", "requests/chunk", "billed/chunk", "units/chunk")
    yield Table("W1: AWS requests of Piecework", heads, rows)


def rows_of(
    results: Results, workload: str, columns: Sequence[tuple[str, str, int]]
) -> list[tuple[str, ...]]:
    """Return a row for each system, or for each variant of Piecework."""
    rows = []
    for system in results.systems(workload):
        for variant in results.variants(workload):
            name = variant or system
            if runs := results.runs_of(workload, system, variant):
                rows.append((name, *cells(results, runs, columns)))
            elif why := failure_reason(results, workload, system, variant):
                rows.append((name, why, *[""] * len(columns)))
    return [*rows, *excluded_rows(workload, rows, len(columns))] if rows else []


def excluded_rows(
    workload: str, rows: Sequence[tuple[str, ...]], columns: int
) -> Iterator[tuple[str, ...]]:
    """Yield a row for each system that does not run a workload, with the reason."""
    names = {row[0] for row in rows}
    without = {
        PIECEWORK: PIECEWORK_EXCLUSIONS,
        **{each.name: each.without for each in RIVALS},
    }
    for name, reasons in without.items():
        if workload in reasons and name not in names:
            yield (name, f"not run: {reasons[workload]}", *[""] * columns)


def cells(
    results: Results, runs: list[Record], columns: Sequence[tuple[str, str, int]]
) -> list[str]:
    """Return the cells of a system: medians, with ranges where there are several."""
    first = runs[0]
    found = []
    for _, name, digits in columns:
        place = (first.workload, first.system, name, first.variant)
        spread = results.figure(*place)
        on_aws = first.system == PIECEWORK or any(
            rival.on_aws for rival in RIVALS if rival.name == first.system
        )
        hidden = spread is None or (name in AWS_FIGURES and not on_aws)
        found.append("" if hidden or spread is None else cell(spread, digits))
    cores = Spread(tuple(run.noise["foreign_cores"] for run in runs))
    return [*found, cell(cores, 2)]


#: Figures that only apply to systems on AWS.
AWS_FIGURES = frozenset(
    {"requests_per_task", "write_units_per_task", "read_units_per_task"}
    | {"usd_per_million", "requests", "emulator_cpu_s_per_1000"}
)


def cell(spread: Spread, digits: int) -> str:
    """Return a median, with the range if the values differ."""

    def of(value: float) -> str:
        return f"{value:,.{digits}f}"

    median, low, high = of(spread.median), of(spread.low), of(spread.high)
    return median if low == high else f"{median} ({low}-{high})"


def failure_reason(results: Results, workload: str, system: str, variant: str) -> str:
    """Return why a figure is missing; empty if there was no run."""
    for record in results.errors():
        place = (record.workload, record.system, record.variant)
        if place == (workload, system, variant):
            said = [line for line in record.error.splitlines() if line.strip()]
            return f"failed: {said[0]}"
    return ""


def drop_empty_columns(table: Table) -> Table:
    """Return a table without its empty columns."""
    figures = [row for row in table.rows if not is_text_row(row)]
    columns = range(1, len(table.heads))
    kept = [0, *([n for n in columns if any(row[n] for row in figures)] or [1])]

    def of(cells: tuple[str, ...]) -> tuple[str, ...]:
        if is_text_row(cells):
            return (*cells[:2], *[""] * (len(kept) - 2))
        return tuple(cells[number] for number in kept)

    return Table(table.title, of(table.heads), tuple(map(of, table.rows)))


def text(results: Results) -> str:
    """Return all tables for a terminal."""
    return "".join(plain(table) for table in tables(results))


def plain(table: Table) -> str:
    """Return a table in columns; a reason may run over those to its right."""
    every = [table.heads, *table.rows]
    widths = [
        max(len(row[n]) for row in every if not is_text_row(row))
        for n in range(len(every[0]))
    ]
    widths[0] = max(len(row[0]) for row in every)
    lines = [table.title]
    for row in every:
        padded = [row[0].ljust(widths[0])]
        padded += [cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)]
        text_line = f"{row[0].ljust(widths[0])}  {row[1]}"
        lines.append(text_line if is_text_row(row) else "  ".join(padded).rstrip())
    return "\n".join(lines) + "\n\n"


def is_text_row(row: tuple[str, ...]) -> bool:
    """Return whether a row holds a sentence instead of figures."""
    return row[1].startswith(("failed: ", "not run: "))


def markdown(table: Table) -> str:
    """Return a table for the page."""
    rule = ["---", *["---:"] * (len(table.heads) - 1)]
    rows = [table.heads, rule, *table.rows]
    lines = [
        "| " + " | ".join(cell.replace("|", "/") for cell in row) + " |" for row in rows
    ]
    return "\n".join(lines) + "\n"
