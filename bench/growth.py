"""Measure W4: many small jobs at once."""

from __future__ import annotations

from bench.ours import PieceworkAdapter
from bench.stand import BenchEnvironment
from bench.workloads import Outcome, measure_no_op


def measure_many_jobs(
    env: BenchEnvironment, adapter: PieceworkAdapter, jobs: int
) -> Outcome:
    """Submit many jobs, then let one worker process all of them."""
    adapter.jobs = [f"job-{number}" for number in range(jobs)]
    outcome = measure_no_op(env, adapter)
    return Outcome(
        {**outcome.values, "jobs_per_s": jobs / outcome.values["all_s"]}, outcome.counts
    )
