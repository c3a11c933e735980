"""Print each figure of the flow as `name=value`; end with 1 if one exceeds its limit.

    make flow                     all figures
    make flow ARGS="poison"       those whose name begins so

A figure is a function that returns a number; its row has the largest number allowed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from piecework import telemetry
from verification.flow.poison import (
    others_delay_s,
    poison_dead_letter_s,
    poisoned_innocents,
)


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number, and the largest one that is allowed."""

    name: str
    measure: Callable[[], float]
    limit: float


FIGURES: Final = (
    Figure("poison_dead_letter_s", poison_dead_letter_s, 300.0),
    Figure("poisoned_innocents", poisoned_innocents, 0),
    Figure("poison_delays_other_job_s", others_delay_s, 1.0),
)


def main(prefixes: Sequence[str]) -> int:
    """Measure and print; return the exit code."""
    telemetry.configure("error")
    exceeded = []
    for figure in FIGURES:
        if prefixes and not figure.name.startswith(tuple(prefixes)):
            continue
        value = figure.measure()
        sys.stdout.write(f"{figure.name}={value:g}\n")
        if value > figure.limit:
            exceeded.append(f"{figure.name}: the limit is {figure.limit:g}")
    for line in exceeded:
        sys.stderr.write(f"{line}\n")
    return int(bool(exceeded))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
