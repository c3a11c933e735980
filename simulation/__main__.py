"""Run schedules, and say which promise broke and how to see it again."""

from __future__ import annotations

import os
import sys
import time
from typing import Annotated

import typer

from piecework.codes import REGISTRY
from piecework.errors import PieceworkError
from simulation.given import Given, load_works
from simulation.many import TOLD, run_many
from simulation.progress import Progress, Stop
from simulation.reach import OUT_OF_REACH
from simulation.report import last_line, replay, summary
from simulation.schedule import run_schedule

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
)

#: Schedules from which on everything that can happen should have happened.
ENOUGH = 5_000


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def simulate(
    pipeline: Annotated[
        str, typer.Argument(help="`module:pipeline`; none: Piecework's own.")
    ] = "",
    source: Annotated[
        str, typer.Argument(help="Where its chunks come from, as for a submit.")
    ] = "",
    schedules: Annotated[
        int, typer.Option(help="How many schedules to run.", min=1)
    ] = 1000,
    seed: Annotated[int, typer.Option(help="The seed of the first.", min=0)] = 1,
    processes: Annotated[
        int, typer.Option(help="Processes to run them in.", min=1)
    ] = os.cpu_count() or 1,
    stand_ins: Annotated[
        str,
        typer.Option(
            help="`module:MAPPING` from functions that reach out to stand-ins."
        ),
    ] = "",
    trace: Annotated[  # noqa: FBT002 -- a flag of a command
        bool, typer.Option("--trace", help="Write down all that happens, one seed.")
    ] = False,
) -> None:
    """Run a pipeline through crashes, lost replies and doubled messages, many times."""
    given = Given(pipeline, source, stand_ins)
    try:
        if bool(pipeline) != bool(source):
            raise typer.BadParameter("a pipeline needs a source of chunks")
        code = show(given, seed) if trace else run(given, seed, schedules, processes)
    except PieceworkError as error:
        sys.stderr.write(f"{error.code}: {error.message}\n{error.next_step}\n")
        raise SystemExit(error.exit_code) from error
    raise SystemExit(code)


def show(given: Given, seed: int) -> int:
    """Write the trace of one schedule."""
    verdict = run_schedule(seed, load_works(given), traced=True)
    sys.stdout.write("\n".join([*verdict.trace, ""]))
    for said in verdict.broken:
        sys.stdout.write(f"broken: {said}\n")
    sys.stdout.write(f"seed={seed} violations={len(verdict.broken)}\n")
    return 1 if verdict.broken else 0


def run(given: Given, seed: int, schedules: int, processes: int) -> int:
    """Run many schedules; return the exit code."""
    began = time.monotonic()
    seeds = range(seed, seed + schedules)
    with Stop() as stop:
        told = Progress(schedules, began).told
        total = run_many(given, seeds, processes, told, lambda: bool(stop.by))
    sys.stdout.write(summary(total))
    for broken_seed, said in total.broken[:TOLD]:
        sys.stdout.write(f"\nseed {broken_seed}: {'; '.join(dict.fromkeys(said))}\n")
        sys.stdout.write(f"  see it again: {replay(given, broken_seed)}\n")
    if total.codes[OUT_OF_REACH]:
        sys.stdout.write(f"\n{OUT_OF_REACH}: {REGISTRY[OUT_OF_REACH].recovery}\n")
    if total.jobs and not total.jobs["SUCCEEDED"]:
        sys.stdout.write(
            "\nno job succeeded; what its stages raise stands in the trace"
        )
        sys.stdout.write(f", at `chunk.dead`: {replay(given, seed)}\n")
    own = not given.pipeline and total.schedules >= ENOUGH
    lacking = [*total.never_gone, *total.never_fired] if own else []
    if lacking:
        sys.stdout.write(f"\nnever happened: {', '.join(lacking)}\n")
    if total.schedules < schedules:
        sys.stdout.write(f"\nstopped after {total.schedules:,} of {schedules:,}\n")
    sys.stdout.write(last_line(total, seed, time.monotonic() - began))
    return 1 if total.broken or lacking else stop.code


if __name__ == "__main__":
    app(prog_name="piecework simulate")
