"""Check that the roles grant exactly what the code uses: `python -m verification.iam`.

Every command and path runs, then a soak, both through a proxy. The proxy decides as
IAM does by the roles of `infra/roles.yaml`.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from verification.iam.coverage import left_out
from verification.iam.report import Report
from verification.iam.run import run
from verification.iam.soak_behind_proxy import calls, soak
from verification.iam.walkthrough import run_every_command
from verification.soak import microburst
from verification.soak.plan import Plan

SEED = 11


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both; return 0 if the code uses exactly what is granted."""
    parser = argparse.ArgumentParser(prog="verification.iam", description=__doc__)
    parser.add_argument("--chunks", type=int, default=60, help="of the soak; 0: none")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="iam-"))
    report = Report()
    asyncio.run(run_all(report, folder, options.chunks))
    for line in report.told():
        sys.stderr.write(f"{line}\n")
    if report.wrong:
        sys.stderr.write(f"logs in {folder}\n")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write(f"{report.last_line()}\n")
    return 1 if report.wrong else 0


async def run_all(report: Report, folder: Path, chunks: int) -> None:
    """Run every command, then the soak."""
    say("every command and path, each actor with its own key")
    actors = await run(folder, run_every_command)
    proxy = actors.proxy
    report.add(proxy.let_in, proxy.denied, proxy.strange, proxy.decisions)
    report.broken += actors.failed
    report.broken += [f"never run: {name}" for name in left_out(actors.commands_run)]
    if not chunks:
        return
    say(f"a soak of {chunks} chunks behind the same proxy")
    microburst.ensure()
    plan = Plan(chunks=chunks, kills=3, freezes=1, stops=1, seed=SEED, workers=3)
    place = folder / "soak"
    place.mkdir()
    seen = await soak(plan, place, say)
    let_in, denied = calls(seen["let_in"]), calls(seen["denied"])
    report.add(let_in, denied, seen["strange"], seen["decisions"])
    report.broken += seen["broken"]


def say(line: str) -> None:
    """Print progress to stderr, away from the results."""
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
