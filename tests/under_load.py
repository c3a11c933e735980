"""Run the suite in random order beside busy processes: `make test-under-load`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

BUSY = 6
#: Ends a busy process whose parent was killed.
BUSY_LOOP = """
import os
parent = os.getppid()
while os.getppid() == parent:
    sum(range(1_000_000))
"""


def main() -> int:
    """Run the rounds; return 1 if a round failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked, rest = parser.parse_known_args()
    busy = [subprocess.Popen([sys.executable, "-c", BUSY_LOOP]) for _ in range(BUSY)]
    try:
        failed = [
            seed
            for seed in range(asked.seed, asked.seed + asked.rounds)
            if run_round(seed, rest) != 0
        ]
    finally:
        for process in busy:
            process.kill()
            process.wait()
    sys.stdout.write(f"rounds={asked.rounds} failed={len(failed)}")
    sys.stdout.write(f" seeds={failed}\n" if failed else "\n")
    return 1 if failed else 0


def run_round(seed: int, rest: list[str]) -> int:
    """Run the suite in the order of a seed; return the exit code of pytest."""
    sys.stdout.write(f"seed {seed}\n")
    sys.stdout.flush()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.shuffled", *rest]
    environ = {**os.environ, "TEST_SEED": str(seed)}
    return subprocess.run(command, env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
