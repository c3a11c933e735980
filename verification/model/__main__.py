"""`python -m verification.model --states N`: explore N states, and every ablation.

A line with `all` marks a configuration that was explored completely. Only such a run
proves that a final state can be reached from every state. The other properties hold in
each explored state.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from verification.model.ablations import ABLATIONS, Ablation
from verification.model.checker import Found, explore
from verification.model.configurations import CONFIGURATIONS
from verification.model.small_model import SmallModel, model_of
from verification.model.state import Config

#: An ablation must violate its property within so many states.
ABLATION_STATES = 300_000


def main() -> int:
    """Explore and ablate; return 1 if a property fails or an ablation is not caught."""
    parser = argparse.ArgumentParser(prog="python -m verification.model")
    parser.add_argument("--states", type=int, default=1_000_000)
    limit = parser.parse_args().states
    with ProcessPoolExecutor() as pool:
        states, violations = explore_all(pool, limit)
        caught = sum(pool.map(ablate, ABLATIONS))
    write(
        f"states={states} violations={violations}"
        f" ablations={len(ABLATIONS)} caught={caught}"
    )
    return int(violations > 0 or caught < len(ABLATIONS) or states < limit)


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


def ablate(ablation: Ablation) -> bool:
    """Find what a missing guard breaks, and print the shortest trace to it."""
    started = time.monotonic()
    found = explore(model_of(ablation.without), ABLATION_STATES, ablation.breaks)
    trace = found.broken.get(ablation.breaks)
    cost = f"{found.states} states, {time.monotonic() - started:.1f} s"
    if trace is None:
        write(f"without {ablation.guard}: NOT CAUGHT ({ablation.breaks}; {cost})")
        return False
    write(
        f"without {ablation.guard}: breaks {ablation.breaks!r} in {len(trace)} steps"
        f" ({cost}): {'; '.join(trace)}"
    )
    return True


def write(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
