"""Run source 004's design and Piecework under the same faults."""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from verification.naive.faults import INTENSITY
from verification.naive.figures import causes, incomplete, table
from verification.naive.trial import DESIGNS, Outcome, run_trial

#: The rate that the source reports, and its tolerance for this number of jobs.
REPORTED, TOLERANCE, ENOUGH = 0.12, 0.02, 1_000
#: Jobs that a process does at a time.
BATCH = 10


def main() -> int:
    """Return 0 if only the old design loses jobs, at its usual rate."""
    asked = parse()
    if asked.trace:
        return replay(asked.trace, asked.seed, asked.intensity)
    began = time.monotonic()
    seeds = range(asked.seed, asked.seed + asked.jobs)
    outcomes: dict[str, list[Outcome]] = {}
    with ProcessPoolExecutor(asked.processes) as pool:
        for design in DESIGNS:
            run = partial(run_trial, design, intensity=asked.intensity)
            outcomes[design] = list(pool.map(run, seeds, chunksize=BATCH))
            print_line(f"{design}: {time.monotonic() - began:.0f} s")
    return report(outcomes, asked.intensity, time.monotonic() - began)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m verification.naive", description=__doc__
    )
    parser.add_argument("--jobs", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first job")
    parser.add_argument("--intensity", type=float, default=INTENSITY)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--trace", choices=DESIGNS, help="print the events of one job")
    return parser.parse_args()


def replay(design: str, seed: int, intensity: float) -> int:
    """Print the events of one job."""
    outcome = run_trial(design, seed, intensity, traced=True)
    for line in outcome.trace:
        print_line(line)
    print_line(f"incomplete={outcome.incomplete} missing={list(outcome.missing)}")
    return int(outcome.incomplete)


def report(outcomes: dict[str, list[Outcome]], intensity: float, seconds: float) -> int:
    """Print the results."""
    for line in table(outcomes):
        print_line(line)
    print_line("naive, the incomplete jobs:")
    for line in causes(outcomes["naive"]):
        print_line(line)
    bad = broken(outcomes)
    for trial in bad:
        print_line(
            "BROKEN: python -m verification.naive "
            f"--intensity {intensity} --trace {trial}"
        )
    naive, ours = incomplete(outcomes["naive"]), incomplete(outcomes["ours"])
    if naive.of >= ENOUGH and abs(naive.hits / naive.of - REPORTED) > TOLERANCE:
        bad.append("the intensity")
        print_line(
            f"BROKEN: the intensity leaves {naive.percent} of the naive jobs incomplete"
        )
    print_line(
        f"naive_incomplete={naive.percent} naive_interval={naive.range}"
        f" ours_incomplete={ours.percent} ours_interval={ours.range}"
        f" jobs={ours.of} intensity={intensity} seconds={seconds:.0f}"
    )
    return int(bool(bad))


def broken(outcomes: dict[str, list[Outcome]]) -> list[str]:
    """Return each unexpected trial, as the command that replays it."""
    return [
        f"{design} --seed {o.seed} {list(o.errors[:1])}"
        for design, trials in outcomes.items()
        for o in trials
        if o.errors
        or (design == "ours" and (o.incomplete or o.twice or o.effects_twice))
    ]


def print_line(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
