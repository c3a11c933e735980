"""Plant one fault after the other, and check that a test fails."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from random import Random
from threading import Thread

from verification.mutants.conditions import condition_mutants
from verification.mutants.equivalent import EQUIVALENT
from verification.mutants.guards import guard_mutants
from verification.mutants.lane import Shared, UnusableRunError, lane, snapshot
from verification.mutants.last import last_mutants
from verification.mutants.mutant import Mutant
from verification.mutants.open_files import is_open
from verification.mutants.sequence import sequence_mutants

ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    asked = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        snapshot(ROOT, Path(folder, "sources"))
        return run(Path(folder), asked)


def run(folder: Path, asked: argparse.Namespace) -> int:
    """Find the mutants, try the selected ones, and count the results."""
    sources = folder / "sources"
    everything = all_mutants(sources)
    stale = set(EQUIVALENT) - {mutant.key for mutant in everything}
    for key in sorted(stale):
        say(f"no such mutant any more: {key}")
    mutants = selected_mutants(
        everything if asked.all else [m for m in everything if not is_open(m)], asked
    )
    if asked.list:
        for mutant in mutants:
            say(str(mutant))
        return 0
    began = time.monotonic()
    tried = [mutant for mutant in mutants if mutant.key not in EQUIVALENT]
    same = len(mutants) - len(tried)
    caught, survived, unusable = try_all(tried, folder, asked)
    say(f"seconds={time.monotonic() - began:.0f} unusable={unusable}")
    say(f"mutants={len(mutants)} caught={caught} equivalent={same} survived={survived}")
    return 1 if survived or unusable or stale or not mutants else 0


def all_mutants(root: Path) -> list[Mutant]:
    """Return the mutants of every kind."""
    kinds = condition_mutants, guard_mutants, sequence_mutants, last_mutants
    return [mutant for find in kinds for mutant in find(root)]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="verification.mutants", description=__doc__)
    parser.add_argument("--only", default="", help="mutants whose line contains this")
    parser.add_argument("--sample", type=int, default=0, help="try so many of them")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--lanes", type=int, default=2, help="tried at once")
    parser.add_argument(
        "--narrow", action="store_true", help="leave out the scenarios: quick, stricter"
    )
    parser.add_argument(
        "--all", action="store_true", help="also those of the files where some survive"
    )
    parser.add_argument("--list", action="store_true", help="say what would be tried")
    return parser.parse_args(arguments)


def selected_mutants(
    everything: list[Mutant], asked: argparse.Namespace
) -> list[Mutant]:
    """Return the selected mutants, each once."""
    unique = {(m.key, m.start): m for m in everything if asked.only in str(m)}
    mutants = list(unique.values())
    if not 0 < asked.sample < len(mutants):
        return mutants
    drawn = Random(asked.seed).sample(range(len(mutants)), asked.sample)
    return [mutants[index] for index in sorted(drawn)]


def try_all(
    mutants: list[Mutant], folder: Path, asked: argparse.Namespace
) -> tuple[int, int, int]:
    """Try mutants in lanes; return how many were caught, survived, were unusable."""
    waiting: SimpleQueue[Mutant] = SimpleQueue()
    for mutant in mutants:
        waiting.put(mutant)
    ends: list[str] = []
    shared = Shared()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, shared.stop)
    threads = [
        Thread(target=work, args=(waiting, folder / str(number), shared, asked, ends))
        for number in range(min(asked.lanes, len(mutants)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lost = len(mutants) - len(ends)  # a lane that broke left some untried
    return ends.count("caught"), ends.count("survived"), ends.count("unusable") + lost


def work(
    waiting: SimpleQueue[Mutant],
    folder: Path,
    shared: Shared,
    asked: argparse.Namespace,
    ends: list[str],
) -> None:
    """Try all mutants."""
    with lane(folder.parent / "sources", folder, shared) as here:
        while not shared.stopping.is_set():
            try:
                mutant = waiting.get_nowait()
            except Empty:
                return
            try:
                test = here.find_catching_test(mutant, with_scenarios=not asked.narrow)
            except UnusableRunError as error:
                say(f"{mutant}: UNUSABLE\n{error}")
                ends.append("unusable")
                continue
            say(f"{mutant}: {f'caught by {test}' if test else 'SURVIVED'}")
            ends.append("caught" if test else "survived")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
