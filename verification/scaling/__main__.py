"""Try the policy of `infra/scaling.yaml`, and simpler ones, on simulated work."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from random import Random

from verification.scaling import arrivals
from verification.scaling.arrivals import Case
from verification.scaling.policy import read_scaling
from verification.scaling.rivals import rivals
from verification.scaling.simulate import Outcome, World, simulate
from verification.scaling.template import read

SEED = 1
BACKLOGS = (16, 32, 64, 96, 192, 384)
HEAD = (
    f"{'':26} {'policy':24} {'all':>8} {'ideal':>6} {'first':>6} {'p95':>6}"
    f" {'tasks':>7} {'x ideal':>7} {'most':>5} {'reversals':>9} {'cut':>5} {'bare':>5}"
)


def main() -> None:
    """Print the tables, and the figures in one line at the end."""
    write("all: minutes to the last end; first, p95: seconds to the begin of a chunk")
    write("cut: chunks that a scale-in stopped; bare: the same without protection")
    ours = compared()
    write("")
    for backlog in BACKLOGS:
        for case in (burst(1_000), burst(10_000)):
            scaling = read_scaling(read("scaling", BacklogPerTask=backlog))
            show(case.name, f"BacklogPerTask {backlog}", simulate(case, scaling, SEED))
    write(" ".join(f"{name}={value}" for name, value in figures(ours)))


def compared() -> dict[str, Outcome]:
    """Print each case under each policy; return the results of ours."""
    write(HEAD)
    ours = {}
    template = read("scaling")
    target = float(template["Parameters"]["BacklogPerTask"]["Default"])
    for case in cases():
        found = simulate(case, read_scaling(template), SEED)
        bare = simulate(case, read_scaling(template), SEED, World("none"))
        show(case.name, "infra/scaling.yaml", found, bare)
        ours[case.name] = found
        for name, scaling in rivals(20, target).items():
            show(case.name, name, simulate(case, scaling, SEED))
    return ours


def cases() -> Iterator[Case]:
    """Yield the cases, each the same in every run."""
    yield arrivals.single(Random(1))
    yield burst(1_000)
    yield burst(10_000)
    yield arrivals.burst(1_000, 600, Random(4), "1,000 of ten minutes")
    yield arrivals.steady(60, 120, 60, Random(5))
    yield arrivals.waves(Random(6))
    yield arrivals.on_off(200, 4, 2700, Random(7))
    yield arrivals.long_waits(Random(8))


def burst(count: int) -> Case:
    """Return so many chunks of a minute at once."""
    return arrivals.burst(count, 60, Random(count))


def show(case: str, policy: str, found: Outcome, bare: Outcome | None = None) -> None:
    """Print one row of a table."""
    write(
        f"{case:26} {policy:24} {found.all_ended_s / 60:8.1f} {found.ideal_s / 60:6.1f}"
        f" {found.first_s:6.0f} {found.wait(0.95):6.0f} {found.task_minutes:7.0f}"
        f" {found.cost:7.1f} {found.peak:5} {found.reversals:9} {found.interrupted:5}"
        f" {'' if bare is None else bare.interrupted:>5}"
    )


def figures(ours: dict[str, Outcome]) -> Iterator[tuple[str, str]]:
    """Yield the figures to keep an eye on."""
    thousand, ten = ours["burst of 1,000"], ours["burst of 10,000"]
    yield "all_ended_1000_min", f"{thousand.all_ended_s / 60:.1f}"
    yield "all_ended_10000_min", f"{ten.all_ended_s / 60:.1f}"
    yield "all_ended_10000_of_ideal", f"{ten.all_ended_s / ten.ideal_s:.2f}"
    yield "cost_1000_of_ideal", f"{thousand.cost:.2f}"
    yield "cost_10000_of_ideal", f"{ten.cost:.2f}"
    yield "first_s", f"{thousand.first_s:.0f}"
    yield "first_after_a_night_s", f"{ours['one job after a night'].first_s:.0f}"
    yield "reversals_steady", str(ours["steady, 60 a minute"].reversals)
    yield "cut", str(sum(found.interrupted for found in ours.values()))
    yield "pauses", str(sum(found.pauses for found in ours.values()))
    kept = [
        simulate(case, read_scaling(read("scaling")), SEED, World("kept"))
        for case in cases()
    ]
    yield "cut_without_gaps", str(sum(found.interrupted for found in kept))


def write(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
