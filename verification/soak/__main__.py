"""Run true processes under true signals, and check the result in four ways."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from piecework.settings import load_settings
from piecework_orchestrator.demo.processes import isolated_environ
from piecework_orchestrator.demo.run import INTERRUPTED, cancelled_on_signals
from verification.soak.history import check
from verification.soak.plan import PACE, Plan
from verification.soak.recorded import limits, read_records
from verification.soak.run import Course, run
from verification.soak.unproven import blind
from verification.soak.verdict import MOST_PRINTED, Verdict, judge

USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak; 0 if no rule was broken."""
    asked = parse(arguments)
    if asked.judge:
        return judge_again(Path(asked.judge))
    plan = planned(asked)
    folder = Path(asked.folder or tempfile.mkdtemp(prefix="soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        say(f"{folder} has another soak's records: they would be judged, too")
        return USAGE
    say(f"seed {plan.seed}; logs and ledger in {folder}")
    try:
        course = asyncio.run(soak(plan, folder))
    except (asyncio.CancelledError, KeyboardInterrupt):
        return INTERRUPTED
    verdict = judge(plan, course)
    broken = show(verdict)
    if broken:
        say(f"seed {plan.seed}; logs, ledger and changes in {folder}")
    elif not (asked.keep or asked.folder):
        shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write(f"{verdict.last_line()}\n")
    return 1 if broken else 0


async def soak(plan: Plan, folder: Path) -> Course:
    """Soak; a signal ends all that was started, too."""
    with cancelled_on_signals():
        return await run(plan, folder, say)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="verification.soak", description=__doc__)
    parser.add_argument("--chunks", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--freezes", type=int, help="default: a fifth of the kills")
    parser.add_argument("--stops", type=int, help="default: a fifth of the kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--keep", action="store_true", help="leave the logs there")
    parser.add_argument("--folder", default="", help="where the logs go, and stay")
    parser.add_argument("--judge", default="", help="judge a folder's history again")
    return parser.parse_args(arguments)


def planned(asked: argparse.Namespace) -> Plan:
    """Return the plan of what was asked for."""
    fifth = asked.kills // 5
    return Plan(
        chunks=asked.chunks,
        kills=asked.kills,
        freezes=fifth if asked.freezes is None else asked.freezes,
        stops=fifth if asked.stops is None else asked.stops,
        seed=asked.seed,
        workers=asked.workers,
    )


def show(verdict: Verdict) -> list[str]:
    """Print what was measured and what was broken; return the latter."""
    for figure in verdict.figures():
        say(figure)
    broken = [*verdict.broken(), *verdict.late(), *verdict.unproven()]
    for rule in broken[:MOST_PRINTED]:
        say(f"BROKEN: {rule}")
    if len(broken) > MOST_PRINTED:
        say(f"and {len(broken) - MOST_PRINTED} more")
    return broken


def judge_again(folder: Path) -> int:
    """Judge what a soak recorded, without running one."""
    records = read_records(folder)
    missing = list(blind({type(record).__name__ for record in records}))
    with isolated_environ(PACE):
        found = check(records, limits(load_settings(), folder))
    for said in (*missing, *found):
        say(str(said))
    sys.stdout.write(f"history_violations={len(found)} records={len(records)}\n")
    return 1 if found or missing else 0


def say(text: str) -> None:
    """Print a line with the time."""
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
