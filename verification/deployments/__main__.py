"""Deploy each change of a pipeline in the middle of a job, and count what goes wrong.

make deployments                              the whole table
make deployments ARGS="--only field-added"    the rows whose name begins so, in detail

`table.txt` has the changes. A run is a chunk of a change, at one moment, with one end
of version 1.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from piecework import telemetry
from verification.deployments.changes import deployments
from verification.deployments.drill import End, Run, drill
from verification.deployments.judge import FAULTS, end_of, expected, fault_of

#: The rows of one pair of workers.
AT_ONCE = 80


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
    runs: list[Run] = []
    with TemporaryDirectory() as name:
        for end in ends:
            for first in range(0, len(found), AT_ONCE):
                folder = (options.keep or Path(name)) / f"{end.name.lower()}-{first}"
                rows = found[first : first + AT_ONCE]
                some = asyncio.run(drill(folder, rows, end))
                report(some, in_detail=bool(options.only))
                runs += some
    faults = Counter(map(fault_of, runs))
    changes = len({run.row.change.name for run in runs})
    figures = {"changes": changes, "runs": len(runs)}
    figures |= {fault: faults[fault] for fault in FAULTS}
    sys.stdout.write(" ".join(f"{k}={v}" for k, v in figures.items()) + "\n")
    return int(any(faults[fault] for fault in FAULTS))


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
