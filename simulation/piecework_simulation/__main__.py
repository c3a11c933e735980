"""Run schedules, and print violated invariants with the command that replays them."""

from __future__ import annotations

import os
import sys
import time
from typing import Annotated

import typer

from piecework.errors import PieceworkError
from piecework.errors.codes import REGISTRY
from piecework_orchestrator.cli.app import run_alone
from piecework_orchestrator.cli.global_options import (
    CONTEXT,
    VERBOSE,
    VERBOSITY,
    command_class,
)
from piecework_simulation.driver.inputs import Inputs, load_workloads
from piecework_simulation.driver.schedule import run_schedule
from piecework_simulation.engine.sandbox import NETWORK_REFUSED
from piecework_simulation.runner import (
    MAX_LISTED,
    Progress,
    StopSignals,
    headline,
    last_line,
    replay,
    run_schedules,
    summary,
)

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
)

#: Schedules from which on everything that can happen should have happened.
FULL_COVERAGE_SCHEDULES = 5_000


@app.command(cls=command_class("simulate"), context_settings=CONTEXT)
def simulate(
    pipeline: Annotated[
        str, typer.Argument(help="`module:pipeline`; default: the built-in pipelines.")
    ] = "",
    source: Annotated[
        str, typer.Argument(help="Source of its chunks, as for a submit.")
    ] = "",
    schedules: Annotated[int, typer.Option(help="Number of schedules.", min=1)] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the first schedule.", min=0)] = 1,
    processes: Annotated[
        int, typer.Option(help="Number of processes.", min=1)
    ] = os.cpu_count() or 1,
    stubs: Annotated[
        str,
        typer.Option(
            help="`module:MAPPING` from functions that use the network to stubs."
        ),
    ] = "",
    trace: Annotated[  # noqa: FBT002 -- a flag of a command
        bool, typer.Option("--trace", help="Print every event of one seed.")
    ] = False,
) -> None:
    """Run a pipeline under crashes, lost replies and duplicate messages, many times.

    The first line says how many invariants were violated. With `-v`, counts of jobs,
    faults and transitions follow. The exit code is 1 if an invariant was violated, if
    no job succeeded, or if a stub was never used.
    """
    inputs = Inputs(pipeline, source, stubs)
    try:
        if bool(pipeline) != bool(source):
            raise typer.BadParameter(
                "A pipeline needs a source of chunks: give both or neither."
            )
        code = show(inputs, seed) if trace else run(inputs, seed, schedules, processes)
    except PieceworkError as error:
        sys.stderr.write(f"{error.code}: {error.message}\n{error.next_step}\n")
        raise SystemExit(error.exit_code) from error
    raise SystemExit(code)


def show(inputs: Inputs, seed: int) -> int:
    """Write the trace of one schedule."""
    verdict = run_schedule(seed, load_workloads(inputs), traced=True)
    sys.stdout.write("\n".join([*verdict.trace, ""]))
    for text in verdict.violations:
        sys.stdout.write(f"violated: {text}\n")
    sys.stdout.write(f"seed={seed} violations={len(verdict.violations)}\n")
    return 1 if verdict.violations else 0


def run(inputs: Inputs, seed: int, schedules: int, processes: int) -> int:
    """Run many schedules; return the exit code."""
    began = time.monotonic()
    seeds = range(seed, seed + schedules)
    with StopSignals() as stop, Progress(schedules, began) as progress:
        total = run_schedules(
            inputs, seeds, processes, progress.report, lambda: bool(stop.signal_number)
        )
    sys.stdout.write(headline(total))
    for broken_seed, text in total.violations[:MAX_LISTED]:
        sys.stdout.write(f"\nseed {broken_seed}: {'; '.join(dict.fromkeys(text))}\n")
        sys.stdout.write(f"  replay: {replay(inputs, broken_seed)}\n")
    if total.codes[NETWORK_REFUSED]:
        sys.stdout.write(f"\n{NETWORK_REFUSED}: {REGISTRY[NETWORK_REFUSED].recovery}\n")
    fruitless = bool(total.jobs) and not total.succeeded
    if fruitless:
        sys.stdout.write("\nNo job succeeded, so little was tried. The trace shows the")
        sys.stdout.write(" errors of the stages, at `chunk.dead_lettered`: ")
        sys.stdout.write(f"{replay(inputs, seed)}\n")
    unstubbed = sorted(total.unstubbed or ())
    for name in unstubbed:
        sys.stdout.write(
            f"\nNo schedule called {name}, so its stub replaced nothing.\n"
        )
    own = not inputs.pipeline and total.schedules >= FULL_COVERAGE_SCHEDULES
    missing = [*total.never_taken, *total.never_fired] if own else []
    if missing:
        sys.stdout.write(f"\nNever covered: {', '.join(missing)}\n")
    if total.schedules < schedules:
        sys.stdout.write(f"\nStopped after {total.schedules:,} of {schedules:,}\n")
    if os.environ.get(VERBOSITY) == VERBOSE:
        sys.stdout.write(f"\n{summary(total)}")
        sys.stdout.write(last_line(total, seed, time.monotonic() - began))
    failed = total.violations or missing or fruitless or unstubbed
    return 1 if failed else stop.code


if __name__ == "__main__":
    run_alone(app, "piecework simulate")
