"""Strike at every point of a job; each run begins where it is struck.

Up to there all runs are alike. So one run goes through undisturbed, and at each of its
points the process makes copies of itself: in each of them the run goes on struck.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import resource
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context

from simulation.crash_points.findings import Finding, Kind, judge
from simulation.crash_points.run import Job, run, undisturbed
from simulation.crash_points.strikes import Strike, Strikes

#: Parts into which the points of a job are dealt out.
SHARES = 8
#: Seconds, of a real clock, after which a run counts as one that does not end.
LONGEST_S = 60
#: Bytes that a run may take.
MOST_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Share:
    """The points of a job whose number leaves a remainder."""

    job: Job
    remainder: int


def explore(jobs: Sequence[Job], processes: int) -> Iterator[Finding]:
    """Strike at each point of each job in each way; yield what came of it."""
    for job in jobs:
        undisturbed(job)  # which the other processes then know
    shares = [Share(job, remainder) for job in jobs for remainder in range(SHARES)]
    with get_context("fork").Pool(processes) as pool:
        for findings in pool.imap_unordered(explored, shares):
            yield from findings


def explored(share: Share) -> list[Finding]:
    """Strike at each point of a share."""
    job, first = share.job, first_to_copy(share.job)
    points = range(share.remainder, first, SHARES)
    findings = [struck(job, strike) for p in points for strike in strikes_at(job, p)]
    original = Original(share, first)
    try:
        found = run(job, None, on_point=original.at_point)
        if original.strike is not None:
            original.tell(judge(job, original.strike, found))
    finally:
        if original.strike is not None:  # a copy never gets beyond here
            os._exit(1)
    return findings + original.findings


def first_to_copy(job: Job) -> int:
    """Return the first point at which a copy can be made.

    The submit has a file open, which all copies would share.
    """
    points = enumerate(undisturbed(job).points)
    return 1 + max((n for n, p in points if p.name.startswith("submit")), default=-1)


def strikes_at(job: Job, point: int) -> list[Strike]:
    """Return all that can befall a point."""
    return [Strike(point, mode) for mode in undisturbed(job).points[point].modes]


def struck(job: Job, strike: Strike) -> Finding:
    """Return what comes of a run with a strike."""
    return judge(job, strike, run(job, strike))


@dataclass(slots=True)
class Original:
    """The process of the undisturbed run; in a copy, of a struck one.

    Attributes:
        first: The first point at which it may be copied.
        strike: What befalls this process, if it is a copy.
        pipe: Where a copy says what came of it.
    """

    share: Share
    first: int
    findings: list[Finding] = field(default_factory=list)
    strike: Strike | None = None
    pipe: int = -1

    def at_point(self, strikes: Strikes, point: int) -> None:
        """Have copies struck at a point, one after the other."""
        others = point < self.first or point % SHARES != self.share.remainder
        if self.strike is not None or others:
            return
        for strike in strikes_at(self.share.job, point):
            read, write = os.pipe()
            copy = os.fork()
            if not copy:
                os.close(read)
                limit()
                # asyncio remembers a running loop for one process only.
                asyncio._set_running_loop(strikes.world.loop)  # noqa: SLF001
                self.strike, self.pipe, strikes.strike = strike, write, strike
                return
            os.close(write)
            self.findings.append(self.hear(read, strike))
            os.waitpid(copy, 0)

    def hear(self, pipe: int, strike: Strike) -> Finding:
        """Return what a copy says came of it."""
        with os.fdopen(pipe, "rb") as said:
            text = said.read()
        if text:
            finding: Finding = pickle.loads(text)  # noqa: S301 -- our own copy's
            return finding
        broken = [(Kind.UNENDED, "the run itself did not end, or broke down")]
        return Finding(self.share.job, strike, broken, 0)

    def tell(self, finding: Finding) -> None:
        """Say what came of this copy."""
        with os.fdopen(self.pipe, "wb") as said:
            pickle.dump(finding, said)


def limit() -> None:
    """End this process should it run, or grow, for ever."""
    signal.alarm(LONGEST_S)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
