"""docs/aws-limits.md, all of it, so that no figure is older than the recording."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.limits import model, quotas
from bench.limits.recorded import Pattern, read_patterns
from piecework.domain.keys import PARTITION_SIZE, partition_count
from piecework_worker.shutdown import STOP_SHARE

TEXT: Final = Path(__file__).with_name("aws-limits.md.in")
SIZES: Final = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
WORKERS: Final = (1, 10, 100, 1_000, 10_000)
#: The recorded job and the duration of its chunks.
CASES: Final = (
    ("no calls", 1.0),
    ("three stages", 10.0),
    ("three stages", 60.0),
    ("three stages", 600.0),
)
#: The memory of a worker, set by `WorkerSize`.
GIB: Final = 1024**3
#: What a worker uses without a job, measured with five open clients.
IDLE_BYTES: Final = 89 * 1024**2


def page() -> str:
    """Return the page."""
    patterns = {pattern.name: pattern for pattern in read_patterns()}
    named = patterns["three stages"]
    blocks = {
        "patterns": table(
            ["job", "per chunk, submit", "per chunk, work", "reads at the end"],
            (pattern_row(pattern) for pattern in patterns.values()),
        ),
        "cases": "\n\n".join(case(patterns[name], s) for name, s in CASES),
        "fleet": table(
            ["what", "per worker", "limit", "binds from"], fleet_rows(named)
        ),
        "size": table(
            [
                "chunks",
                "submit, at least",
                "work, on a new table",
                "job's item",
                "manifest",
                "certificate",
                "reads at the end",
                "queries at the end",
                "memory at the end",
                "a reconciler's pass over all chunks",
            ],
            (size_row(chunks, named) for chunks in SIZES),
        ),
        "quotas": table(
            ["limit", "", "AWS page", "raised on request"],
            map(quota_row, quotas.ALL),
        ),
        "busy": number(
            quotas.TABLE_WRITES.limit / model.PAGES_A_SECOND,
        ),
        "busy_group": number(PARTITION_SIZE * model.PAGES_A_SECOND),
        "flight_workers": number(quotas.IN_FLIGHT.limit / model.CONCURRENCY),
        "fifo_workers": number(quotas.FIFO_IN_FLIGHT.limit / model.CONCURRENCY),
        "fifo_rate": number(quotas.FIFO_RATE.limit * quotas.MESSAGES.limit),
        "fits": number((STOP_SHARE * GIB - IDLE_BYTES) / named.finish_bytes, digits=3),
        "fits_reconciler": number(
            (GIB / 2 - IDLE_BYTES) / named.finish_bytes, digits=3
        ),
        "memory": f"{named.finish_bytes:.0f}",
    }
    return TEXT.read_text(encoding="utf-8").format(**blocks)


def case(pattern: Pattern, seconds: float) -> str:
    """Return the table of one kind of chunk: every size, every fleet."""
    rows = (
        [
            number(chunks),
            *(cell(model.Run(chunks, w, seconds), pattern) for w in WORKERS),
        ]
        for chunks in SIZES
    )
    heads = ["chunks", "1 worker", *(f"{number(w)} workers" for w in WORKERS[1:])]
    title = f"### Chunks of {duration(seconds)}, {pattern.name}"
    return f"{title}\n\n{table(heads, rows)}"


def cell(run: model.Run, pattern: Pattern) -> str:
    """Return the duration of a run, and the limit that binds, if any."""
    found = model.minimum_time(run, pattern)
    if found.by is None:
        return duration(found.seconds)
    times = found.seconds / run.ideal_s
    return f"{duration(found.seconds)} **{found.by.label}** {times:.1f}x"


def pattern_row(pattern: Pattern) -> list[str]:
    """Return the requests of a chunk of a recorded job."""
    return [
        pattern.name,
        f"{pattern.submit_units:.1f} write units",
        f"{pattern.work_units:.1f} write units, and 1 to 2 for the tally",
        f"{pattern.final_read_units:.2f} read units, {pattern.reads:.0f} per group",
    ]


def fleet_rows(pattern: Pattern) -> Iterator[list[str]]:
    """Yield the fleet's rates."""
    for each in model.fleet_demands(pattern):
        limit = f"{number(each.quota.limit)} {each.quota.unit}"
        rate = f"{each.per_worker:g} a second"
        yield [each.what, rate, limit, f"{number(each.max_workers)} workers"]


def size_row(chunks: int, pattern: Pattern) -> list[str]:
    """Return the sizes that grow with the job."""
    units = chunks * (pattern.work_units + model.tally_units(chunks))
    groups = partition_count(chunks)
    return [
        number(chunks),
        duration(model.submit_s(chunks, pattern)),
        duration(model.new_table_s(units)),
        size(model.job_item_bytes(chunks, pattern)),
        size(chunks * pattern.manifest_bytes),
        size(chunks * pattern.certificate_bytes),
        f"{number(chunks * pattern.final_read_units)} units",
        number(groups * pattern.reads),
        size(chunks * pattern.finish_bytes),
        duration(model.reconciler_pass_s(chunks)),
    ]


def quota_row(quota: quotas.Quota) -> list[str]:
    """Return a limit and its source."""
    limit = size(quota.limit) if quota.unit == "bytes" else number(quota.limit)
    unit = "" if quota.unit == "bytes" else f" {quota.unit}"
    raised = "yes" if quota.raised else "no"
    return [quota.what, f"{limit}{unit}", f"[{quota.page}]({quota.url})", raised]


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# ── format numbers with two or three digits and a unit ────────────────────────

KIB: Final = 1_024
UNITS: Final = (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0))


def duration(seconds: float) -> str:
    """Return a time in its largest unit of which it has two."""
    if seconds < 1:
        return "under 1 s"
    for name, length in UNITS:
        if seconds >= 2 * length or name == "s":
            return f"{rounded(seconds / length)} {name}"
    return "never"


def size(count: float) -> str:
    """Return a number of bytes."""
    for name in ("B", "KB", "MB"):
        if count < KIB:
            return f"{rounded(count)} {name}"
        count /= KIB
    return f"{rounded(count)} GB"


def number(count: float, digits: int | None = None) -> str:
    """Return a number with commas, to so many digits."""
    if digits is not None:
        step = 10 ** (math.floor(math.log10(count)) + 1 - digits)
        count = math.floor(count / step) * step
    return f"{round(count):,}"


def rounded(count: float) -> str:
    """Return a number with one decimal if it is small, and has one."""
    text = f"{count:.1f}" if count < 10 else f"{count:,.0f}"  # noqa: PLR2004
    return text.removesuffix(".0")
