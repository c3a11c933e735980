"""Inject a fault at every point of a job; each run starts at its fault.

All runs are identical up to their fault. So one run continues without a fault, and
forks its process at each point. The fault happens in the fork.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import resource
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import zip_longest
from multiprocessing import get_context

from piecework.domain.outcome import CompensationResult
from piecework.domain.states import ChunkStatus
from piecework_simulation.crash_points.fault_points import FaultInjector, InjectedFault
from piecework_simulation.crash_points.run import Job, Run, run, run_without_fault
from piecework_simulation.crash_points.scenario_driver import Snapshot

# ── compare a run with a fault with the run without one ───────────────────────

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
                and end.compensation == CompensationResult.PIVOT_UNKNOWN
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


#: Parts into which the points of a job are dealt out.
SHARES = 8
#: Real seconds after which a run counts as one that does not end.
MAX_WAIT_S = 60
#: Maximum bytes of memory of a run.
MAX_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Share:
    """The points of a job whose number has this remainder."""

    job: Job
    remainder: int


def explore(jobs: Sequence[Job], processes: int) -> Iterator[Finding]:
    """Inject each fault at each point of each job; yield the findings."""
    for job in jobs:
        run_without_fault(job)  # which the other processes then know
    shares = [Share(job, remainder) for job in jobs for remainder in range(SHARES)]
    with get_context("fork").Pool(processes) as pool:
        for findings in pool.imap_unordered(explore_share, shares):
            yield from findings


def explore_share(share: Share) -> list[Finding]:
    """Inject each fault at each point of a share."""
    job, first = share.job, first_forkable_point(share.job)
    points = range(share.remainder, first, SHARES)
    findings = [
        run_with_fault(job, fault) for p in points for fault in faults_at(job, p)
    ]
    original = ForkingRun(share, first)
    try:
        found = run(job, None, on_point=original.at_point)
        if original.fault is not None:
            original.write_finding(compare_runs(job, original.fault, found))
    finally:
        if original.fault is not None:  # a copy never gets beyond here
            os._exit(1)
    return findings + original.findings


def first_forkable_point(job: Job) -> int:
    """Return the first point at which a copy can be made.

    The submit has a file open, which all copies would share.
    """
    points = enumerate(run_without_fault(job).points)
    return 1 + max((n for n, p in points if p.name.startswith("submit")), default=-1)


def faults_at(job: Job, point: int) -> list[InjectedFault]:
    """Return all faults of a point."""
    return [
        InjectedFault(point, mode)
        for mode in run_without_fault(job).points[point].modes
    ]


def run_with_fault(job: Job, fault: InjectedFault) -> Finding:
    """Return the finding of a run with a fault."""
    return compare_runs(job, fault, run(job, fault))


@dataclass(slots=True)
class ForkingRun:
    """The process of the run without a fault; in a fork, of a run with one.

    Attributes:
        first: The first point at which it can be forked.
        fault: The fault of this process, if it is a fork.
        pipe: The pipe to which a fork writes its finding.
    """

    share: Share
    first: int
    findings: list[Finding] = field(default_factory=list)
    fault: InjectedFault | None = None
    pipe: int = -1

    def at_point(self, injector: FaultInjector, point: int) -> None:
        """Fork the process for each fault of a point, one after the other."""
        others = point < self.first or point % SHARES != self.share.remainder
        if self.fault is not None or others:
            return
        for fault in faults_at(self.share.job, point):
            read, write = os.pipe()
            copy = os.fork()
            if not copy:
                os.close(read)
                limit_process()
                # asyncio remembers a running loop for one process only.
                asyncio._set_running_loop(injector.world.loop)  # noqa: SLF001
                self.fault, self.pipe, injector.fault = fault, write, fault
                return
            os.close(write)
            self.findings.append(self.read_finding(read, fault))
            os.waitpid(copy, 0)

    def read_finding(self, pipe: int, fault: InjectedFault) -> Finding:
        """Return the finding that a fork wrote."""
        with os.fdopen(pipe, "rb") as said:
            text = said.read()
        if text:
            finding: Finding = pickle.loads(text)  # noqa: S301 -- our own copy's
            return finding
        violations = [(Kind.UNENDED, "the run did not end, or its process failed")]
        return Finding(self.share.job, fault, violations, 0)

    def write_finding(self, finding: Finding) -> None:
        """Write this fork's finding."""
        with os.fdopen(self.pipe, "wb") as said:
            pickle.dump(finding, said)


def limit_process() -> None:
    """Limit the time and the memory of this process."""
    signal.alarm(MAX_WAIT_S)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
