"""Measure the CPU of what a person types: the version, a list, a submit of one row.

python -m bench.commands [--rounds 5]

Each command is a process of its own, beside the server of the bench. The figure is the
lowest CPU of the rounds: the least disturbed by other processes. The environment has
keys, a region and `AWS_CONFIG_FILE`, as in a container.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns

from bench.adapters.product import PieceworkAdapter
from bench.budgets import BudgetResult
from bench.environment import open_environment
from bench.processes import ROOT, FailedError, tail

#: The fields of a configuration of the bench that a job of one row needs.
CONFIG = {
    "workload": "W1",
    "n": 1,
    "concurrency": 1,
    "visibility_s": 30,
}
PROGRAM = "import sys; from piecework_orchestrator.cli import main; main()"


@dataclass(frozen=True, slots=True)
class Typed:
    """What a person types, or a program imports, and the CPU seconds it may take."""

    name: str
    words: tuple[str, ...]
    limit_s: float
    python: str = PROGRAM

    def command(self) -> list[str]:
        """Return the words of the process; `{new}` is a new id of a job."""
        new = f"job-{monotonic_ns()}"
        words = [word.replace("{new}", new) for word in self.words]
        return [sys.executable, "-c", self.python, *words]


def typed(manifest: Path) -> Sequence[Typed]:
    """Return the commands, with their limits."""
    submit = ("submit", "bench.pipelines:plain", str(manifest), "--job-id", "{new}")
    return (
        Typed("version_cpu_s", ("--version",), 0.1),
        Typed("help_cpu_s", ("--help",), 0.1),
        Typed("import_client_cpu_s", (), 0.2, "import piecework.client"),
        Typed("submit_one_row_cpu_s", submit, 0.5),
        Typed("jobs_list_cpu_s", ("jobs", "list"), 0.4),
        Typed("jobs_show_cpu_s", ("jobs", "show", "job-0"), 0.4),
    )


def measure(manifest: Path, environ: Mapping[str, str], log: Path, rounds: int) -> None:
    """Print each figure with its limit."""
    first = typed(manifest)[3]
    words = [word.replace("{new}", "job-0") for word in first.words]
    cpu_s([sys.executable, "-c", PROGRAM, *words], environ, log)
    for each in typed(manifest):
        least = min(cpu_s(each.command(), environ, log) for _ in range(rounds))
        budget = BudgetResult(each.name, "<=", each.limit_s, least)
        sys.stdout.write(f"{budget.line}\n")
        sys.stdout.flush()


def cpu_s(command: Sequence[str], environ: Mapping[str, str], log: Path) -> float:
    """Run a process until it ends; return its seconds of CPU.

    Raises:
        FailedError: It ended with another code than 0.
    """
    with log.open("ab") as sink:
        process = subprocess.Popen(
            command, cwd=ROOT, env=dict(environ), stdout=sink, stderr=sink
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise FailedError(f"{command[3:]} ended with {status}:\n{tail(log)}")
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Measure once; return 0."""
    parser = argparse.ArgumentParser(prog="python -m bench.commands")
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "commands"
        folder.mkdir()
        with open_environment(CONFIG, folder, "models") as env:
            adapter = PieceworkAdapter(env)
            adapter.setup()
            log = folder / "commands.log"
            measure(adapter.manifest, adapter.environment, log, rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
