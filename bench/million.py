"""Run one job of 1,000,000 chunks to its last file: `make million CHUNKS=1000000`.

    submit        the rows of a file, in a process of its own
    drain         two workers, until the certificate is written
    certificate   `jobs show --certificate`: the end and the hash of every chunk
    results       `results --to`: all values, as Parquet

Each step prints its seconds and the peak memory of its process. Submit and workers have
a limit. The exit code is 1 if a chunk is missing, or if a limit is exceeded. The server
of AWS keeps all rows and objects in memory, so a million needs a machine of 16 GB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.adapters.product import PieceworkAdapter
from bench.budgets import BudgetResult
from bench.commands import PROGRAM
from bench.environment import open_environment
from bench.large_job import PEAK
from bench.processes import ROOT, FailedError, Group, tail
from bench.waiting import run_workers

WORKERS, SLOTS, VISIBILITY_S = 2, 32, 18
JOB = "job-1"
#: The steps whose memory must not grow with the job, and their megabytes.
FLAT, MOST_MB = ("submit", "drain"), 200.0
#: Seconds between two looks at the job, and without a further chunk until it failed.
LOOK_S, STUCK_S = 1.0, 120.0
KIB = 1024


class Step(NamedTuple):
    """A step of the job."""

    name: str
    seconds: float
    peak_mb: float


def main() -> int:
    """Run the job once; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.million")
    parser.add_argument("--chunks", type=int, default=1_000_000)
    chunks = parser.parse_args().chunks
    config = {
        "workload": "W1",
        "n": chunks,
        "concurrency": SLOTS,
        "visibility_s": VISIBILITY_S,
    }
    kept = True
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "million"
        place.mkdir()
        with open_environment(config, place, "models") as env:
            adapter = PieceworkAdapter(env, jobs=[JOB])
            adapter.setup()
            for step in run(adapter, chunks):
                rate = f"{chunks / step.seconds:,.0f} chunks/s"
                sys.stdout.write(f"{step.name}_s={step.seconds:.1f} ({rate})\n")
                line, is_met = memory_of(step)
                sys.stdout.write(f"{line}\n")
                sys.stdout.flush()
                kept = kept and is_met
            requests = env.counts().requests / chunks
            sys.stdout.write(f"requests_per_chunk={requests:.3f}\n")
    return 0 if kept else 1


def memory_of(step: Step) -> tuple[str, bool]:
    """Return the line of a step's memory, and whether that is below its limit.

    A whole certificate grows with its job, so its command has no limit.
    """
    if step.name not in FLAT:
        return f"{step.name}_mb={step.peak_mb:.4g}", True
    figure = BudgetResult(f"{step.name}_mb", "<=", MOST_MB, step.peak_mb)
    return figure.line, figure.met


def run(adapter: PieceworkAdapter, chunks: int) -> Iterator[Step]:
    """Do each step; yield it when it has ended.

    Raises:
        FailedError: A step failed, or a chunk is missing from what it wrote.
    """
    said = adapter.enqueue()
    yield Step("submit", said["seconds"], said["rss_mb"])
    with run_workers(adapter, WORKERS) as groups:
        seconds = drain(adapter, groups)
        most = max(group.rss_mb for group in groups)
    yield Step("drain", seconds, most)
    command = Command(adapter)
    words = ["jobs", "show", JOB, "-o", "json", "--certificate"]
    with command.run("certificate", words) as step:
        shown = json.loads(command.stdout.read_text("utf-8"))
        require(len(shown["certificate"]["results"]), chunks, "the certificate")
    yield step
    file = adapter.env.folder / "results.parquet"
    with command.run("results", ["results", JOB, "--to", str(file)]) as step:
        require(rows_of(file), chunks, "the Parquet file")
    yield step


def drain(adapter: PieceworkAdapter, groups: Sequence[Group]) -> float:
    """Wait for the certificate; return the seconds since the first start."""
    ledger, moved = adapter.env.ledger, time.monotonic()
    seen = -1
    while not adapter.settled():
        time.sleep(LOOK_S)
        for group in groups:
            group.check()
        done = len(ledger.poll().dones)
        if done > seen:
            seen, moved = done, time.monotonic()
        if time.monotonic() - moved > STUCK_S:
            raise FailedError(f"No chunk has ended for {STUCK_S:g} s, after {seen:,}.")
    return time.monotonic() - ledger.poll().first_start / 1e9


class Command:
    """Commands of the product, each in a process of its own."""

    def __init__(self, adapter: PieceworkAdapter) -> None:
        self.folder = adapter.env.folder
        self.environ: Mapping[str, str] = adapter.environment
        self.stdout = self.folder / "stdout"

    @contextmanager
    def run(self, name: str, words: Sequence[str]) -> Iterator[Step]:
        """Run a command to its end, and check inside what it wrote.

        Raises:
            FailedError: It ended with another code than 0.
        """
        peak, log = self.folder / f"{name}.peak", self.folder / f"{name}.log"
        environ = {**self.environ, "BENCH_PEAK": str(peak)}
        began = time.monotonic()
        with self.stdout.open("wb") as out, log.open("ab") as errors:
            done = subprocess.run(
                [sys.executable, "-c", PEAK + PROGRAM, *words],
                cwd=ROOT,
                env=environ,
                stdout=out,
                stderr=errors,
                check=False,
            )
        if done.returncode:
            raise FailedError(f"{name} ended with {done.returncode}:\n{tail(log)}")
        seconds = time.monotonic() - began
        yield Step(name, seconds, int(peak.read_text("ascii")) * KIB / 1e6)


def rows_of(file: Path) -> int:
    """Return the rows of a Parquet file."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(file) as found:
        return int(found.metadata.num_rows)


def require(found: int, chunks: int, where: str) -> None:
    """Fail if a chunk is missing.

    Raises:
        FailedError: There are more or fewer.
    """
    if found != chunks:
        raise FailedError(f"{found:,} of {chunks:,} chunks are in {where}.")


if __name__ == "__main__":
    sys.exit(main())
