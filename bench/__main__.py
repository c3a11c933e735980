"""Measure Piecework and its alternatives, and print the results.

python -m bench [--full] [--only W1,W3] [--systems piecework,celery] [--n 2000]
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import budgets, page, results, tables
from bench.adapters.systems import PIECEWORK, RIVALS
from bench.emulator import KINDS, say
from bench.machine import machine, versions
from bench.plan import WORKLOADS, PlanOptions, plan
from bench.results import Results
from bench.runner import Runner


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested plan, print its tables, and evaluate the budgets."""
    args = parser().parse_args(arguments)
    # On SIGTERM, the bench stops what it has started and prints the results so far.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if args.page:
        page.write(results.load(results.LATEST))
        return 0
    options = PlanOptions(
        form="full" if args.full else "short",
        workloads=split_words(args.only),
        systems=split_words(args.systems.lower()),
        tasks=args.n,
        rounds=args.rounds,
        largest=args.largest,
        aws_server=args.aws_server,
    )
    found = run_plan(options, args.keep)
    if args.save:
        stored = found.beside(results.load(results.LATEST))
        stored.save(results.LATEST)
        page.write(stored)
    sys.stdout.write(tables.text(found))
    evaluate_budgets = budgets.evaluate_budgets(found)
    sys.stdout.write("".join(f"{line}\n" for line in budgets.lines(evaluate_budgets)))
    return budgets.exit_code(found)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    names = ", ".join([PIECEWORK, *sorted({min(r.words, key=len) for r in RIVALS})])
    made = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    made.add_argument(
        "--full", action="store_true", help="run the full sizes and rounds"
    )
    made.add_argument(
        "--only", default="", help=f"workloads: {', '.join(WORKLOADS)}, W2"
    )
    made.add_argument("--systems", default="", help=f"systems: {names}")
    made.add_argument("--n", type=int, default=0, help="chunks of W1 and W3")
    made.add_argument("--rounds", type=int, default=0, help="number of rounds")
    made.add_argument(
        "--largest", type=int, default=0, help="maximum chunks of a W4 job"
    )
    made.add_argument(
        "--aws-server", choices=KINDS, default=KINDS[0], help="AWS server"
    )
    made.add_argument("--keep", type=Path, help="folder for logs and ledgers")
    made.add_argument(
        "--save",
        action="store_true",
        help="write the results and the page, beside what was not run",
    )
    made.add_argument("--page", action="store_true", help="only write the page again")
    return made


def split_words(text: str) -> tuple[str, ...]:
    """Return the words of a comma-separated list."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def run_plan(options: PlanOptions, keep: Path | None) -> Results:
    """Run the plan."""
    began = time.monotonic()
    steps = plan(options)
    with TemporaryDirectory(prefix="piecework-bench-") as made:
        records = Runner(keep or Path(made), say, options.aws_server).run(steps)
    say(f"{len(records)} runs in {time.monotonic() - began:.0f} s")
    rivals = [step.rival for step in steps if step.rival]
    return Results(options.form, machine(), versions(rivals), records)


if __name__ == "__main__":
    sys.exit(main())
