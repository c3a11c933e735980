"""Run every crash point, or show the trace of one: `make crashpoints`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence

from piecework_simulation.crash_points.explore import (
    Finding,
    Kind,
    compare_runs,
    explore,
)
from piecework_simulation.crash_points.fault_points import (
    STEP,
    FaultPoint,
    InjectedFault,
    Mode,
)
from piecework_simulation.crash_points.run import Job, run, run_without_fault
from piecework_simulation.crash_points.scenarios import SCENARIOS

#: Maximum failed runs that are shown.
MAX_SHOWN = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sweep or one point; return 1 if an invariant was violated."""
    parsed = options().parse_args(arguments)
    names = [parsed.scenario] if parsed.scenario else list(SCENARIOS)
    jobs = [Job(name, parsed.chunks, parsed.seed) for name in names]
    if parsed.point is not None:
        return replay(
            jobs[0], InjectedFault(parsed.point, Mode(parsed.mode)), parsed.trace
        )
    return sweep(jobs, parsed.processes)


def options() -> argparse.ArgumentParser:
    """Return the options of the command."""
    parser = argparse.ArgumentParser(prog="python -m piecework_simulation.crash_points")
    parser.add_argument("--chunks", type=int, default=22, help="chunks of each job")
    parser.add_argument(
        "--scenario", choices=list(SCENARIOS), help="only this scenario"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the event order")
    parser.add_argument("--processes", type=int, default=2, help="number of processes")
    parser.add_argument("--point", type=int, help="only the point with this number")
    parser.add_argument("--mode", choices=list(Mode), default=Mode.BEFORE)
    parser.add_argument("--trace", action="store_true", help="print every event")
    return parser


def sweep(jobs: Sequence[Job], processes: int) -> int:
    """Inject a fault at every point; print the results."""
    began = time.monotonic()
    runs: Counter[str] = Counter()
    kinds: Counter[Kind] = Counter()
    unresolved, bad = 0, list[Finding]()
    for finding in explore(jobs, processes):
        runs[finding.job.scenario] += 1
        kinds.update({kind for kind, _ in finding.violations})
        unresolved += finding.unresolved > 0
        if finding.violations:
            bad.append(finding)
        points = run_without_fault(finding.job).points
        if runs[finding.job.scenario] == sum(len(point.modes) for point in points):
            name, so_far = finding.job.scenario, round(time.monotonic() - began)
            progress = f"{len(points)} points{awaits(points)}, {runs[name]} runs"
            print_line(f"{name}: {progress}, {so_far} s so far")
    order = list(SCENARIOS)
    bad.sort(key=lambda f: (order.index(f.job.scenario), f.fault.point, f.fault.mode))
    for finding in bad[:MAX_SHOWN]:
        show(finding)
    figures = {
        "points": sum(len(run_without_fault(job).points) for job in jobs),
        "runs": runs.total(),
        **{str(kind): kinds[kind] for kind in Kind},
        "unresolved": unresolved,
        "seconds": round(time.monotonic() - began),
    }
    print_line(" ".join(f"{name}={value}" for name, value in figures.items()))
    return int(bool(bad) or not runs)


def awaits(points: Sequence[FaultPoint]) -> str:
    """Return how many points are loop steps, and at how many awaits."""
    steps = [point.name for point in points if f" {STEP}" in point.name]
    places = {name.partition(f" {STEP}")[2] for name in steps}
    return f" ({len(steps)} steps at {len(places)} awaits)" if steps else ""


def replay(job: Job, fault: InjectedFault, traced: bool) -> int:  # noqa: FBT001
    """Inject a fault at one point; print the result."""
    found = run(job, fault, traced=traced)
    for line in found.trace:
        print_line(line)
    finding = compare_runs(job, fault, found)
    show(finding)
    return int(bool(finding.violations))


def show(finding: Finding) -> None:
    """Print the result of a run, with the command that replays it."""
    job, fault = finding.job, finding.fault
    name = run_without_fault(job).points[fault.point].name
    print_line(f"{job.scenario} {fault.point} {fault.mode}: {name}")
    for kind, text in finding.violations[:MAX_SHOWN]:
        print_line(f"    {kind}: {text}")
    print_line(
        f"    python -m piecework_simulation.crash_points --chunks {job.chunks}"
        f" --seed {job.seed} --scenario {job.scenario} --point {fault.point}"
        f" --mode {fault.mode} --trace"
    )


def print_line(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
