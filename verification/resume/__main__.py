"""Kill `piecework run` at many moments and start it again, beside DBOS with SQLite.

Each moment has a run of its own. Every fifth run is killed a second time, after its
first start again. The last figures are rows for each second of CPU, with and without
the state file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from dataclasses import fields
from pathlib import Path

from tests.tools import NotInstalledError, bin_of
from verification.resume.book import Figures
from verification.resume.trial import ROWS, SLOTS, Line, paths, trial

HERE = Path(__file__).parent
SECOND_KILL_EVERY = 5
#: Rows of a run without kills, its runs, and the most that its state file may cost.
MANY, ROUNDS = 2_000, 5
LEAST_SHARE = 0.9
RUN = (sys.executable, "-m", "piecework_orchestrator", "run", "squares:squares")


def main() -> int:
    """Print a line for each system; return 1 if the promise was not kept."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1, choices=(1, 2, 4))
    parser.add_argument("--rate-only", action="store_true", help="no kills")
    chosen = parser.parse_args()
    kept = True
    if not chosen.rate_only:
        slots = str(SLOTS // chosen.workers)
        words = [*RUN, "rows.jsonl", "--max-chunks", slots]
        ours = Line("piecework", [*words, "--workers", str(chosen.workers)])
        kept = report(ours, kill_at_moments(ours, chosen.kills)).kept
        try:
            python = bin_of("bench-postgres") / "python"
        except NotInstalledError as error:
            say(f"dbos: not installed: {error}")
        else:
            words = [str(python), str(HERE / "squares_dbos.py"), str(ROWS), str(SLOTS)]
            dbos = Line("dbos", words)
            report(dbos, kill_at_moments(dbos, chosen.kills))
    share = share_of_rate()
    say(f"rows for each second of CPU, beside --no-state: {share:.3f}")
    return 0 if kept and share >= LEAST_SHARE else 1


def kill_at_moments(line: Line, kills: int) -> Figures:
    """Kill a run at each moment; return what all kills have cost."""
    figures = Figures()
    for number in range(kills):
        moments = [(number + 0.5) / kills]
        if number % SECOND_KILL_EVERY == 0:
            moments.append(moments[0] / 3)
        with tempfile.TemporaryDirectory(prefix="resume-") as folder:
            write_rows(Path(folder), ROWS)
            figures += trial(line, Path(folder), moments)
    return figures


def write_rows(folder: Path, rows: int) -> None:
    """Write the input of a run."""
    lines = (json.dumps({"n": n}) + "\n" for n in range(rows))
    (folder / "rows.jsonl").write_text("".join(lines), encoding="utf-8")


def report(line: Line, figures: Figures) -> Figures:
    """Print the figures of a system, and return them."""
    named = (f"{each.name}={getattr(figures, each.name)}" for each in fields(figures))
    say(f"{line.name}: {' '.join(named)}")
    return figures


def share_of_rate() -> float:
    """Return the rows for each second of CPU with a state file, as a share.

    The calls take no time, so the share is that of the worst case. The runs alternate,
    and of each kind the one with the least CPU counts.
    """
    found: dict[str, list[float]] = {"": [], "--no-state": []}
    for _ in range(ROUNDS):
        for option, seconds in found.items():
            with tempfile.TemporaryDirectory(prefix="resume-") as folder:
                write_rows(Path(folder), MANY)
                words = [*RUN, "rows.jsonl", *filter(None, [option])]
                seconds.append(cpu_s(words, Path(folder)))
    return min(found["--no-state"]) / min(found[""])


def cpu_s(words: list[str], folder: Path) -> float:
    """Return the CPU seconds of one run."""
    env = {
        **os.environ,
        "RESUME_BOOK": os.devnull,
        "RESUME_CALL_S": "0",
        "PYTHONPATH": paths(),
        "XDG_STATE_HOME": str(folder / "state"),
    }
    process = subprocess.Popen(
        words,
        cwd=folder,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"the run ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
