"""Check that the roles grant exactly what the code uses: `python -m verification.iam`.

Every command and path runs through a proxy. The proxy decides as IAM does by the
roles of `infra/roles.yaml`.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from verification.iam.coverage import left_out
from verification.iam.report import Report
from verification.iam.run import run
from verification.iam.walkthrough import run_every_command


def main() -> int:
    """Return 0 if the code uses exactly what is granted."""
    parser = argparse.ArgumentParser(prog="verification.iam", description=__doc__)
    parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="iam-"))
    report = Report()
    asyncio.run(run_all(report, folder))
    for line in report.lines():
        sys.stderr.write(f"{line}\n")
    if report.wrong:
        sys.stderr.write(f"logs in {folder}\n")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write(f"{report.last_line()}\n")
    return 1 if report.wrong else 0


async def run_all(report: Report, folder: Path) -> None:
    """Run every command."""
    say("every command and path, each actor with its own key")
    actors = await run(folder, run_every_command)
    proxy = actors.proxy
    report.add(proxy.let_in, proxy.denied, proxy.strange, proxy.decisions)
    report.broken += actors.failed
    report.broken += [f"never run: {name}" for name in left_out(actors.commands_run)]


def say(line: str) -> None:
    """Print progress to stderr, away from the results."""
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
