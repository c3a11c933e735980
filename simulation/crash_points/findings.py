"""Compare a run with a fault with the run without one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest

from piecework.model import ChunkStatus
from piecework.outcome import Compensation
from simulation.crash_points.play import Snapshot
from simulation.crash_points.run import Job, Run, run_without_fault
from simulation.crash_points.strikes import InjectedFault

#: The error code of a chunk whose letter may or may not have been sent.
UNKNOWN_EFFECT = "runtime.effect.unknown"


class Kind(StrEnum):
    """The kind of a violation."""

    LOST = "lost"
    DOUBLE = "double"
    UNENDED = "unended"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a run.

    Attributes:
        violations: The violated invariants.
        unresolved: How many chunks ended as unresolved effects that need an operator.
            The fault hit an effect that cannot be looked up, or a pivot.
    """

    job: Job
    fault: InjectedFault
    violations: list[tuple[Kind, str]]
    unresolved: int


def compare_runs(job: Job, fault: InjectedFault, run: Run) -> Finding:
    """Compare a run with the run without a fault."""
    expected = run_without_fault(job)
    violations = [
        (Kind.DOUBLE if text.startswith("I6") else Kind.OTHER, text)
        for text in run.violations
    ]
    if run.unfinished:
        violations.append((Kind.UNENDED, "the job did not end in time"))
    before, after = (
        [point.name for point in r.points[: fault.point + 1]] for r in (expected, run)
    )
    if not run.fault_happened or before != after:
        violations.append((Kind.OTHER, "the run differed before its fault"))
    unresolved: set[int] = set()
    for one, other in zip_longest(expected.snapshots, run.snapshots):
        if one and other:
            unresolved |= unresolved_chunks(one, other, run.stages_at_fault)
            violations += [
                (Kind.LOST, text) for text in lost_work(one, other, unresolved)
            ]
    return Finding(job, fault, violations, len(unresolved))


def unresolved_chunks(
    expected: Snapshot, found: Snapshot, stages_at_fault: dict[int, str]
) -> set[int]:
    """Return the chunks that correctly wait for an operator's decision.

    The faulty process must have owned them, at the letter stage or up to a pivot that
    refuses. A refusal cannot be told from a second call's if the pivot was entered
    before. The same holds if any call of the claim was retried.
    """
    return {
        n
        for n, stage in stages_at_fault.items()
        if (end := found.chunks.get(n)) is not None
        and end.status == ChunkStatus.DEAD
        and (
            (stage == "write" and end.code == UNKNOWN_EFFECT)
            or (
                stage in {"flight", "hotel", "pay"}
                and end.compensation == Compensation.PIVOT_UNKNOWN
                and end.code == expected.chunks[n].code
            )
        )
    }


def lost_work(
    expected: Snapshot, found: Snapshot, unresolved: set[int]
) -> Iterator[str]:
    """Yield each chunk and booking with a different final state."""
    if not unresolved and found.job != expected.job:
        yield f"the job is {found.job}, expected {expected.job}"
    for n, end in expected.chunks.items():
        if n not in unresolved and found.chunks.get(n) != end:
            yield f"chunk {n} is {found.chunks.get(n)}, expected {end}"
    unresolved_suffixes = {f" {n}" for n in unresolved}
    for name in sorted(set(expected.bookings) ^ set(found.bookings)):
        if name[name.index(" ") :] not in unresolved_suffixes:
            there = "stands" if name in found.bookings else "does not stand"
            yield f"{name} {there}"
