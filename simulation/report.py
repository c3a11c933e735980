"""Format the results of many schedules for the terminal."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from simulation.coverage import CHUNK_TRANSITIONS, JOB_TRANSITIONS
from simulation.given import Inputs
from simulation.many import Totals


def summary(total: Totals) -> str:
    """Return the results as a table of a few lines."""
    again = total.paid_twice / total.paid if total.paid else 0.0
    jobs = sum(total.jobs.values())
    rows = [
        (
            "schedules",
            f"{total.schedules:,}, {total.seconds / 3600:,.1f} simulated hours",
        ),
        ("jobs", f"{jobs:,}: {format_counts(total.jobs.most_common())}"),
        ("requests", f"{total.requests:,} to AWS"),
        ("calls", f"{total.paid:,} executed, {again:.1%} more than once"),
        ("faults", format_counts(sorted(total.fired.items()))),
        (
            "transitions",
            format_counts(
                (w, total.transitions[w])
                for w in [*CHUNK_TRANSITIONS, *JOB_TRANSITIONS]
            ),
        ),
    ]
    if total.codes:
        rows.append(("dead letters", format_counts(total.codes.most_common(8))))
    return "".join(f"{name:<13}{text}\n" for name, text in rows)


def format_counts(counts: Iterable[tuple[str, int]]) -> str:
    """Return counts with their names."""
    return ", ".join(f"{name} {count:,}" for name, count in counts)


def replay(inputs: Inputs, seed: int) -> str:
    """Return the command that shows one schedule."""
    words = ["python", "-m", "simulation"]
    if inputs.pipeline:
        words = ["piecework", "simulate", inputs.pipeline, inputs.source]
    if inputs.stubs:
        words += ["--stubs", inputs.stubs]
    return shlex.join([*words, "--seed", str(seed), "--trace"])


def last_line(total: Totals, seed: int, seconds: float) -> str:
    """Return the figures, for machines."""
    rarest = min(total.fired.values(), default=0)
    gone = len(CHUNK_TRANSITIONS) + len(JOB_TRANSITIONS) - len(total.never_taken)
    facts = {
        "schedules": total.schedules,
        "seeds": f"{seed}-{seed + total.schedules - 1}",
        "violations": len(total.violations),
        "rarest_fault": rarest,
        "transitions": f"{gone}/{len(CHUNK_TRANSITIONS) + len(JOB_TRANSITIONS)}",
        "paid_twice": total.paid_twice,
        "seconds": round(seconds),
    }
    return " ".join(f"{name}={value}" for name, value in facts.items()) + "\n"
