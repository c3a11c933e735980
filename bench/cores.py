"""Drain a job with one process of a worker, and with two: `make cores`.

    waits      each chunk waits for 0.25 s, as a paid call does
    computes   each chunk uses the CPU for 25 ms

The server of AWS runs beside the worker. It needs a tenth of the worker's time here, so
it does not bind. Both ratios need two idle cores: `busy elsewhere` says how many cores
other programs used meanwhile.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from bench import machine
from bench.adapters.product import PieceworkAdapter
from bench.environment import open_environment
from bench.waiting import (
    run_workers,
    wait_until_settled,
    wait_while_alive,
)

#: The slots of a process: the default.
SLOTS = 16
VISIBILITY_S = 18


@dataclass(frozen=True, slots=True)
class Case:
    """What the chunks do.

    Attributes:
        seconds: How long each does it.
        at_least: The limit of the ratio.
    """

    name: str
    pipeline: str
    seconds: float
    at_least: float


CASES = (
    Case("waits", "plain", 0.25, 1.8),
    Case("computes", "computing", 0.025, 1.5),
)


@dataclass(frozen=True, slots=True)
class Drained:
    """One drain.

    Attributes:
        shares: The chunks of each process, the most first.
        elsewhere: The cores that other programs used.
    """

    per_s: float
    shares: list[int]
    elsewhere: float


def main() -> int:
    """Print each drain and its ratio; return 1 if a ratio is below its limit."""
    parser = argparse.ArgumentParser(prog="python -m bench.cores")
    parser.add_argument("--chunks", type=int, default=1_500)
    chunks = parser.parse_args().chunks
    is_met = True
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            one, two = (drain(case, chunks, number, Path(folder)) for number in (1, 2))
            ratio = two.per_s / one.per_s
            is_met = is_met and ratio >= case.at_least
            for number, each in ((1, one), (2, two)):
                sys.stdout.write(
                    f"{case.name:9} {number} process{'es' * (number > 1):2} "
                    f"{each.per_s:7.1f} chunks/s  by process {each.shares}  "
                    f"busy elsewhere {each.elsewhere:.1f} cores\n"
                )
            limit = f"limit {case.at_least}"
            sys.stdout.write(f"{case.name:9} ratio {ratio:.2f} ({limit})\n")
    return 0 if is_met else 1


def drain(case: Case, chunks: int, processes: int, folder: Path) -> Drained:
    """Submit a job, then drain it with a worker that is ready."""
    place = folder / f"{case.name}-{processes}"
    place.mkdir()
    config = {
        "workload": "W1",
        "n": chunks,
        "concurrency": SLOTS,
        "visibility_s": VISIBILITY_S,
        "sleep_s": case.seconds,
    }
    with open_environment(config, place, "models") as env:
        adapter = PieceworkAdapter(env, processes=processes, pipeline=case.pipeline)
        adapter.setup()
        with run_workers(adapter) as groups:
            wait_while_alive(
                lambda: adapter.started() == processes, groups, "No worker is ready."
            )
            adapter.enqueue()
            before = machine.sample()
            wait_until_settled(adapter)
            noise = machine.between(before, machine.sample())
    lines = [line.split() for line in Path(env.config.ledger).read_text().splitlines()]
    done = [words for words in lines if words[0] == "DONE"]
    at = [int(words[-2]) for words in lines if words[0] in {"START", "DONE"}]
    shares = Counter(words[-1] for words in done)
    per_s = len(done) / ((max(at) - min(at)) / 1e9)
    return Drained(per_s, sorted(shares.values(), reverse=True), noise["foreign_cores"])


if __name__ == "__main__":
    sys.exit(main())
