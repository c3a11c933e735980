"""W4, what W1 does not say already: many small jobs at once."""

from __future__ import annotations

from bench.ours import Piecework
from bench.stand import Stand
from bench.workloads import Outcome, no_op


def many_jobs(stand: Stand, ours: Piecework, jobs: int) -> Outcome:
    """Submit so many jobs, then let one worker do all of them."""
    ours.jobs = [f"job-{number}" for number in range(jobs)]
    outcome = no_op(stand, ours)
    return Outcome(
        {**outcome.values, "jobs_per_s": jobs / outcome.values["all_s"]}, outcome.counts
    )
