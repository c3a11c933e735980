"""Deploy each change of a pipeline in the middle of a job, and count what goes wrong.

make deployments                              the whole table
make deployments ARGS="--only field-added"    the rows whose name begins so, in detail

`table.txt` has the changes. A run is a chunk of a change, at one moment, with one end
of version 1.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from piecework import telemetry
from verification.deployments.changes import Deployment, deployments
from verification.deployments.drill import End, Run, drill
from verification.deployments.judge import FAULTS, end_of, expected, fault_of

#: The rows of one world, and the worlds at once. A killed worker leaves suspects, of
#: which a worker runs four at once: more worlds run more of them.
ROWS, AT_ONCE = 38, 4


def main() -> int:
    """Run the drill; return 1 if a run went wrong."""
    parser = argparse.ArgumentParser(prog="make deployments")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--end", choices=[end.name.lower() for end in End])
    parser.add_argument("--keep", type=Path, help="The folder for modules and logs.")
    options = parser.parse_args()
    telemetry.configure("critical")
    found = list(deployments(options.only))
    ends = [End[options.end.upper()]] if options.end else list(End)
    with TemporaryDirectory() as name:
        runs = asyncio.run(
            tried(options.keep or Path(name), found, ends, in_detail=bool(options.only))
        )
    faults = Counter(map(fault_of, runs))
    changes = len({run.row.change.name for run in runs})
    figures = {"changes": changes, "runs": len(runs)}
    figures |= {fault: faults[fault] for fault in FAULTS}
    sys.stdout.write(" ".join(f"{k}={v}" for k, v in figures.items()) + "\n")
    return int(any(faults[fault] for fault in FAULTS))


async def tried(
    folder: Path, found: Sequence[Deployment], ends: Sequence[End], *, in_detail: bool
) -> list[Run]:
    """Run all rows with all ends, several worlds at once, and report each."""
    parts = math.ceil(len(found) / ROWS)
    # A killed version leaves much to wait for, and the other ends much to compute.
    worlds = [(end, part) for part in range(parts) for end in ends]
    turns, began, runs = asyncio.Semaphore(AT_ONCE), time.monotonic(), list[Run]()
    if task := asyncio.current_task():  # else the workers would live on
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)

    async def one(end: End, part: int) -> None:
        async with turns:
            own = folder / f"{end.name.lower()}-{part}"
            some = await drill(own, found[part::parts], end)
        runs.extend(some)
        report(some, in_detail=in_detail)
        took = time.monotonic() - began
        sys.stdout.write(f"{took:.0f} s: {len(runs)} runs, the last by {end}\n")
        sys.stdout.flush()

    async with asyncio.TaskGroup() as group:
        for end, part in worlds:
            group.create_task(one(end, part))
    return runs


def report(runs: Sequence[Run], *, in_detail: bool) -> None:
    """Write a line for each run that went wrong, or for each."""
    for run in runs:
        fault = fault_of(run)
        if fault or in_detail:
            code = run.chunk.error_code if run.chunk else ""
            acts = " ".join(f"{act}={n}" for act, n in sorted(run.by_version.items()))
            sys.stdout.write(
                f"{run.row.name}, {run.moment}, {run.end}: {fault or 'as expected'}: "
                f"{end_of(run)} of {expected(run)} {code or ''} [{acts}] "
                f"{' '.join(run.findings)}\n"
            )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
