"""Compute the figures of each design, with their confidence intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from verification.naive.trial import Outcome

#: The 95 % quantile of the normal distribution.
Z = 1.959964


@dataclass(frozen=True, slots=True)
class Share:
    """A number of successes out of a total."""

    hits: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        """The Wilson interval of 95 %."""
        n, p = self.of, self.hits / self.of
        middle = p + Z**2 / (2 * n)
        spread = Z * math.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
        whole = 1 + Z**2 / n
        return max(0.0, (middle - spread) / whole), min(1.0, (middle + spread) / whole)

    @property
    def percent(self) -> str:
        """The share."""
        return f"{self.hits / self.of:.2%}"

    @property
    def range(self) -> str:
        """The interval."""
        low, high = self.interval
        return f"{low:.2%}-{high:.2%}"


def incomplete(outcomes: Sequence[Outcome]) -> Share:
    """Return the share of incomplete jobs."""
    return Share(sum(o.incomplete for o in outcomes), len(outcomes))


def table(by_design: Mapping[str, Sequence[Outcome]]) -> list[str]:
    """Return the table of all designs, line by line."""
    columns = [column(outcomes) for outcomes in by_design.values()]
    lines = [f"{'':34}" + "".join(f"{name:>17}" for name in by_design)]
    rows = (
        f"{row:34}" + "".join(f"{c[row]:>17}" for c in columns) for row in columns[0]
    )
    return [*lines, *rows]


def column(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Return the figures of one design."""
    share = incomplete(outcomes)
    paid = sum(o.paid for o in outcomes)
    counts = {
        "jobs with a false record": sum(o.reports_falsely for o in outcomes),
        "jobs without an end": sum(not o.ended for o in outcomes),
        "jobs with a dead letter": sum(o.dead > 0 for o in outcomes),
        "chunks silently missing": sum(len(o.missing) for o in outcomes),
        "chunks completed twice": sum(o.twice for o in outcomes),
        "effects twice": sum(o.effects_twice for o in outcomes),
        "paid calls repeated": sum(o.paid_twice for o in outcomes),
    }
    again = sum(o.paid_twice for o in outcomes) / paid if paid else 0.0
    return {
        "jobs": f"{len(outcomes)}",
        "incomplete jobs": f"{share.hits}",
        "  of all": share.percent,
        "  95 % interval": share.range,
        **{name: f"{count}" for name, count in counts.items()},
        "  of all calls": f"{again:.1%}",
    }


def causes(outcomes: Sequence[Outcome]) -> list[str]:
    """Return how many jobs have a chunk missing for which reason."""
    found = Counter(cause for o in outcomes for cause in dict.fromkeys(o.missing))
    return [f"{count:>6} jobs: {cause}" for cause, count in found.most_common()]
