"""What a person reads of many schedules."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from simulation.coverage import CHUNK_WAYS, JOB_WAYS
from simulation.given import Given
from simulation.many import Sum


def summary(total: Sum) -> str:
    """Return what happened, in a few lines."""
    again = total.paid_again / total.paid if total.paid else 0.0
    jobs = sum(total.jobs.values())
    rows = [
        ("schedules", f"{total.schedules:,}, {total.seconds / 3600:,.1f} hours in all"),
        ("jobs", f"{jobs:,}: {listed(total.jobs.most_common())}"),
        ("requests", f"{total.requests:,} to AWS"),
        ("calls", f"{total.paid:,} carried out, {again:.1%} more than once"),
        ("faults", listed(sorted(total.fired.items()))),
        ("ways", listed((w, total.ways[w]) for w in [*CHUNK_WAYS, *JOB_WAYS])),
    ]
    if total.codes:
        rows.append(("dead letters", listed(total.codes.most_common(8))))
    return "".join(f"{name:<13}{text}\n" for name, text in rows)


def listed(counts: Iterable[tuple[str, int]]) -> str:
    """Return counts with their names."""
    return ", ".join(f"{name} {count:,}" for name, count in counts)


def replay(given: Given, seed: int) -> str:
    """Return the command that shows one schedule."""
    words = ["python", "-m", "simulation"]
    if given.pipeline:
        words = ["piecework", "simulate", given.pipeline, given.source]
    if given.stand_ins:
        words += ["--stand-ins", given.stand_ins]
    return shlex.join([*words, "--seed", str(seed), "--trace"])


def last_line(total: Sum, seed: int, seconds: float) -> str:
    """Return the figures, for machines."""
    rarest = min(total.fired.values(), default=0)
    gone = len(CHUNK_WAYS) + len(JOB_WAYS) - len(total.never_gone)
    facts = {
        "schedules": total.schedules,
        "seeds": f"{seed}-{seed + total.schedules - 1}",
        "violations": len(total.broken),
        "rarest_fault": rarest,
        "ways": f"{gone}/{len(CHUNK_WAYS) + len(JOB_WAYS)}",
        "paid_again": total.paid_again,
        "seconds": round(seconds),
    }
    return " ".join(f"{name}={value}" for name, value in facts.items()) + "\n"
