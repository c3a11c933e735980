"""Define Piecework's performance budgets, and compare them with the results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import eq, ge, le
from typing import Literal, TypeAlias

from bench.adapters.systems import BARE, LOOP, PIECEWORK
from bench.results import INTERRUPTED, Results

Bound: TypeAlias = Literal["<=", ">=", "="]
HOLDS: dict[Bound, Callable[[float, float], bool]] = {"<=": le, ">=": ge, "=": eq}


@dataclass(frozen=True, slots=True)
class BudgetResult:
    """A budget with its limit and its measured value.

    Attributes:
        measured: None if it was not measured.
    """

    name: str
    bound: Bound
    limit: float
    measured: float | None
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether the measured value meets the limit; False without a measurement."""
        return self.measured is not None and HOLDS[self.bound](
            self.measured, self.limit
        )

    @property
    def line(self) -> str:
        """The figure as `name=value`, with its limit, and whether that was missed."""
        limit = f"{self.bound}{self.limit:g}"
        if self.measured is None:
            return f"{self.name}=- ({limit}) {self.verdict}"
        missed = "" if self.met else " MISSED"
        note = f"; {self.note}" if self.note else ""
        return f"{self.name}={self.measured:.4g} ({limit}{note}){missed}"

    @property
    def verdict(self) -> str:
        """The result in one or two words."""
        if self.measured is None:
            return "not measured"
        return "kept" if self.met else "missed"


def evaluate_budgets(results: Results) -> list[BudgetResult]:
    """Return all figures."""
    ratio, sizes = growth(results)
    return [
        BudgetResult("requests_per_chunk", "<=", 2.5, w1(results, "requests_per_task")),
        BudgetResult(
            *("worker_cpu_x_boto3_loop", "<=", 1.0),
            over_loop(results, "worker_cpu_s_per_1000"),
        ),
        BudgetResult(
            *("drain_x_boto3_loop", ">=", 1.0), over_loop(results, "drain_per_s")
        ),
        BudgetResult("makespan_x_bare_loop", "<=", 1.15, over_bare_loop(results)),
        BudgetResult("calls_paid_twice", "=", 0, total(results, "paid_twice")),
        BudgetResult("lost", "=", 0, total(results, "lost")),
        BudgetResult("growth_requests_ratio", "<=", 1.05, ratio, sizes),
        BudgetResult("worker_rss_mb", "<=", 150, memory(results)),
    ]


def lines(figures: list[BudgetResult]) -> list[str]:
    """Return the last lines of a run."""
    return [figure.line for figure in figures]


def exit_code(results: Results) -> int:
    """Return 1 if a task was lost or paid twice, or if a Piecework run failed.

    A missed budget does not fail the run, because it depends on the machine.
    """
    wrong = total(results, "lost") or total(results, "paid_twice")
    failed = any(
        record.system == PIECEWORK or record.error == INTERRUPTED
        for record in results.errors()
    )
    return 1 if wrong or failed else 0


def w1(results: Results, name: str, system: str = PIECEWORK) -> float | None:
    """Return a median of W1."""
    spread = results.figure("W1", system, name)
    return spread.median if spread else None


def over_loop(results: Results, name: str) -> float | None:
    """Return a median of W1 over that of the boto3 loop of the same run.

    A figure in seconds is one of the machine; the same figure of a loop that deletes
    each message when its task is done, and records nothing, moves with it.
    """
    ours, loop = w1(results, name), w1(results, name, LOOP)
    return ours / loop if ours is not None and loop else None


def over_bare_loop(results: Results) -> float | None:
    """Return the makespan of W0 over that of a bare loop with the same tries.

    W2b makes 1,280 calls a second in one process, so it is one of the machine's core.
    """
    ours = results.figure("W0", PIECEWORK, "makespan_s")
    bare = results.figure("W0", BARE, "makespan_s")
    return ours.median / bare.median if ours and bare else None


def total(results: Results, name: str) -> float | None:
    """Return a sum over all runs of Piecework."""
    ours = [each.values for each in results.records if each.system == PIECEWORK]
    found = [values[name] for values in ours if name in values]
    return sum(found) if found else None


def growth(results: Results) -> tuple[float | None, str]:
    """Return the requests a chunk of the largest job, over those of the smallest."""
    sizes = [v for v in results.variants("W4") if v.endswith(" chunks")]
    if not sizes:
        return None, ""
    first, last = sizes[0], sizes[-1]
    small = results.figure("W4", PIECEWORK, "requests_per_task", first)
    large = results.figure("W4", PIECEWORK, "requests_per_task", last)
    if small is None or large is None:
        return None, ""
    chunks = f"{int(last.split()[0]):,} chunks over {int(first.split()[0]):,}"
    return large.median / small.median, chunks


def memory(results: Results) -> float | None:
    """Return the peak memory of a worker with 64 chunks in progress."""
    spread = results.figure("W4", PIECEWORK, "worker_rss_mb", "64 in progress")
    return spread.high if spread else None
