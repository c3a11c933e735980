"""`python -m verification.model --states N`: explore N states, and every mutant.

A line with `all` marks a configuration that was explored completely. Only such a run
proves that a final state can be reached from every state. The other properties hold in
each explored state.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from verification.model.checker import Found, explore
from verification.model.configurations import CONFIGURATIONS
from verification.model.mutants import MUTANTS, Mutant
from verification.model.small_model import SmallModel, model_of
from verification.model.state import Config

#: A mutant must violate its property within so many states.
MUTANT_STATES = 300_000


def main() -> int:
    """Explore all; return 1 if a property fails or a mutant is not caught."""
    parser = argparse.ArgumentParser(prog="python -m verification.model")
    parser.add_argument("--states", type=int, default=1_000_000)
    limit = parser.parse_args().states
    with ProcessPoolExecutor() as pool:
        states, violations = explore_all(pool, limit)
        caught = sum(pool.map(is_caught, MUTANTS))
    write(
        f"states={states} violations={violations}"
        f" mutants={len(MUTANTS)} caught={caught}"
    )
    return int(violations > 0 or caught < len(MUTANTS) or states < limit)


def explore_all(pool: ProcessPoolExecutor, limit: int) -> tuple[int, int]:
    """Explore small configurations completely; others share the remaining states."""
    shares = [limit // cfg.share for cfg in CONFIGURATIONS]
    found = pool.map(explore_one, CONFIGURATIONS, shares)
    results = dict(zip(CONFIGURATIONS, found, strict=True))
    rest = limit - sum(found.states for found in results.values())
    partial = [cfg for cfg, found in results.items() if not found.complete]
    if rest > 0 and partial:
        more = -(-rest // len(partial))
        found = pool.map(
            explore_one, partial, [limit // cfg.share + more for cfg in partial]
        )
        results |= zip(partial, found, strict=True)
    for cfg, found in results.items():
        report(cfg, found)
    found_all = results.values()
    return sum(f.states for f in found_all), sum(len(f.broken) for f in found_all)


def explore_one(cfg: Config | SmallModel, limit: int) -> Found:
    """Explore one configuration in a process of its own."""
    return explore(model_of(cfg), limit)


def report(cfg: Config | SmallModel, found: Found) -> None:
    """Print the result of a configuration."""
    whole = "all" if found.complete else "first"
    write(f"{cfg.name}: {whole} {found.states} states, {len(found.broken)} violations")
    for name, trace in found.broken.items():
        write(f"  VIOLATED {name}: {'; '.join(trace)}")


def is_caught(mutant: Mutant) -> bool:
    """Find what a missing guard breaks, and print the shortest trace to it."""
    started = time.monotonic()
    found = explore(model_of(mutant.without), MUTANT_STATES, mutant.breaks)
    trace = found.broken.get(mutant.breaks)
    cost = f"{found.states} states, {time.monotonic() - started:.1f} s"
    if trace is None:
        write(f"without {mutant.guard}: NOT CAUGHT ({mutant.breaks}; {cost})")
        return False
    write(
        f"without {mutant.guard}: breaks {mutant.breaks!r} in {len(trace)} steps"
        f" ({cost}): {'; '.join(trace)}"
    )
    return True


def write(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
