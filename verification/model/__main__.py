"""`python -m verification.model --states N`: explore N states, and every ablation.

A line with `all` marks a configuration that was explored completely. Only such a run
proves that a quiet end can be reached from every state. The other properties hold in
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
from verification.model.state import Config
from verification.model.theme import Theme, model_of

#: An ablation has to show within so many states.
ENOUGH = 300_000


def main() -> int:
    """Explore and ablate; return 0 if all is as it should be."""
    parser = argparse.ArgumentParser(prog="python -m verification.model")
    parser.add_argument("--states", type=int, default=1_000_000)
    asked = parser.parse_args().states
    with ProcessPoolExecutor() as pool:
        states, violations = hold(pool, asked)
        caught = sum(pool.map(ablate, ABLATIONS))
    say(
        f"states={states} violations={violations}"
        f" ablations={len(ABLATIONS)} caught={caught}"
    )
    return int(violations > 0 or caught < len(ABLATIONS) or states < asked)


def hold(pool: ProcessPoolExecutor, asked: int) -> tuple[int, int]:
    """Explore small configurations completely; others share the remaining states."""
    shares = [asked // cfg.share for cfg in CONFIGURATIONS]
    found = pool.map(explore_one, CONFIGURATIONS, shares)
    results = dict(zip(CONFIGURATIONS, found, strict=True))
    left = asked - sum(found.states for found in results.values())
    larger = [cfg for cfg, found in results.items() if not found.complete]
    if left > 0 and larger:
        more = -(-left // len(larger))
        found = pool.map(
            explore_one, larger, [asked // cfg.share + more for cfg in larger]
        )
        results |= zip(larger, found, strict=True)
    for cfg, found in results.items():
        tell(cfg, found)
    found_all = results.values()
    return sum(f.states for f in found_all), sum(len(f.broken) for f in found_all)


def explore_one(cfg: Config | Theme, limit: int) -> Found:
    """Explore one configuration in a process of its own."""
    return explore(model_of(cfg), limit)


def tell(cfg: Config | Theme, found: Found) -> None:
    """Print the result of a configuration."""
    whole = "all" if found.complete else "first"
    say(f"{cfg.name}: {whole} {found.states} states, {len(found.broken)} violations")
    for name, trace in found.broken.items():
        say(f"  VIOLATED {name}: {'; '.join(trace)}")


def ablate(ablation: Ablation) -> bool:
    """Find what a missing guard breaks, and print the shortest trace to it."""
    began = time.monotonic()
    found = explore(model_of(ablation.without), ENOUGH, ablation.breaks)
    trace = found.broken.get(ablation.breaks)
    took = f"{found.states} states, {time.monotonic() - began:.1f} s"
    if trace is None:
        say(f"without {ablation.guard}: NOT CAUGHT ({ablation.breaks}; {took})")
        return False
    say(
        f"without {ablation.guard}: breaks {ablation.breaks!r} in {len(trace)} steps"
        f" ({took}): {'; '.join(trace)}"
    )
    return True


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
