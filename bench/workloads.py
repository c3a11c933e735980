"""Measure W1, W2 and W3 identically for every adapter."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

from bench.adapters.product import PieceworkAdapter
from bench.environment import Adapter, BenchEnvironment
from bench.ledger import Facts
from bench.meter import Counts
from bench.processes import Group, wait_until
from bench.rivals.protocol import Config
from bench.waiting import (
    POLL_S,
    count_done,
    run_workers,
    wait_until_begun,
    wait_until_done,
    wait_until_ready,
    wait_until_settled,
)
from piecework_orchestrator.cost.prices import load_prices

Values: TypeAlias = dict[str, float]
#: Seconds after a kill within which all tasks must be done.
RECOVERY_TIMEOUT_S = 75.0
#: The share of the tasks that is done at the kill: each round draws its own.
KILL_SHARES = (0.1, 0.9)
#: Seconds that a worker idles before it receives work.
WARMUP_S = 1.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run: figures by name, and AWS request counts."""

    values: Values
    counts: Counts = field(default_factory=Counts)


@dataclass(frozen=True, slots=True)
class Cpu:
    """CPU seconds of the workers, the emulator, and a rival's server."""

    worker_s: float
    emulator_s: float
    server_s: float

    def since(self, before: Cpu) -> Cpu:
        """Return the CPU used since an earlier reading."""
        return Cpu(
            self.worker_s - before.worker_s,
            self.emulator_s - before.emulator_s,
            self.server_s - before.server_s,
        )


@dataclass(frozen=True, slots=True)
class DrainResult:
    """The measurements of filling and draining a queue."""

    submit_figures: Mapping[str, float]
    submit_counts: Counts
    counts: Counts
    cpu: Cpu
    rss_mb: float
    ended: float


def measure_no_op(env: BenchEnvironment, adapter: Adapter, workers: int = 1) -> Outcome:
    """W1: submit all tasks, then let the workers process them."""
    adapter.setup()
    drained = measure_drain(env, adapter, workers)
    adapter.teardown()
    figures = cost_figures(drained) | rate_figures(drained, env.ledger.poll())
    return Outcome(figures, drained.counts)


def measure_drain(env: BenchEnvironment, adapter: Adapter, workers: int) -> DrainResult:
    """Fill the queue, and let the workers drain it."""
    before = env.counts()
    submit_figures = adapter.enqueue()
    submitted = env.counts()
    with run_workers(adapter, workers) as groups:
        wait_until_begun(env, groups)
        cpu = cpu_used(env, adapter, groups)
        wait_until_done(env, groups, round(submit_figures["submitted"]))
        ended = adapter.ended(wait_until_settled(adapter))
        return DrainResult(
            submit_figures,
            submit_counts=submitted.since(before),
            counts=env.counts().since(before),
            cpu=cpu_used(env, adapter, groups).since(cpu),
            rss_mb=max(group.rss_mb for group in groups),
            ended=ended,
        )


def cost_figures(drained: DrainResult) -> Values:
    """Return the costs per task."""
    n, counts, cpu = drained.submit_figures["submitted"], drained.counts, drained.cpu
    found = {
        "submit_requests_per_task": drained.submit_counts.requests / n,
        "requests_per_task": counts.requests / n,
        "write_units_per_task": counts.units(reads=False) / n,
        "read_units_per_task": counts.units(reads=True) / n,
        "usd_per_million": counts.usd(load_prices()) / n * 1e6,
        "submit_cpu_s_per_1000": drained.submit_figures.get("cpu", 0.0) / n * 1000,
        "worker_cpu_s_per_1000": cpu.worker_s / n * 1000,
        "emulator_cpu_s_per_1000": cpu.emulator_s / n * 1000,
        "worker_rss_mb": drained.rss_mb,
        "submit_rss_mb": drained.submit_figures.get("rss_mb", 0.0),
    }
    if cpu.server_s:
        found["server_cpu_s_per_1000"] = cpu.server_s / n * 1000
    return found


def rate_figures(drained: DrainResult, facts: Facts) -> Values:
    """Return the rates, and the numbers of lost and repeated tasks."""
    n = drained.submit_figures["submitted"]
    return {
        "tasks": n,
        "submit_per_s": n / drained.submit_figures["seconds"],
        "drain_per_s": n / ((facts.last_done - facts.first_start) / 1e9),
        "finish_s": drained.ended - facts.last_done / 1e9,
        "all_s": drained.ended - facts.first_start / 1e9,
        "lost": n - len(facts.dones),
        "repeated": facts.repeated,
    }


def measure_calls(env: BenchEnvironment, adapter: Adapter) -> Outcome:
    """W2: submit chunks of calls to a worker that waits for work."""
    config = env.config
    adapter.setup()
    with run_workers(adapter) as groups:
        wait_until_ready(adapter, groups)
        time.sleep(WARMUP_S)
        before = env.counts()
        submit_figures = adapter.enqueue()
        began = submit_figures["ended"] - submit_figures["seconds"]
        wait_until_done(env, groups, len(config.tasks))
        ended = adapter.ended(wait_until_settled(adapter, every_s=POLL_S / 4))
        counts = env.counts().since(before)
    adapter.teardown()
    return Outcome(
        call_figures(config, env.ledger.poll(), began, ended, counts), counts
    )


def call_figures(
    config: Config, facts: Facts, began: float, ended: float, counts: Counts
) -> Values:
    """Return the payments, and the duration of all calls if all were made."""
    wanted, took = config.chunks * config.calls, ended - began
    found: dict[str, float] = {
        "first_call_s": facts.first_call / 1e9 - config.sleep_s - began,
        "executions": sum(facts.paid.values()) + facts.failed,
        "failed_calls": facts.failed,
        "paid_twice": facts.paid_twice,
        "lost": wanted - len(facts.paid),
        "requests": counts.requests,
    }
    if found["lost"]:
        return found
    a_call_s = config.sleep_s / config.concurrency
    return found | {
        "makespan_s": took,
        "makespan_x_ideal": took / (wanted * a_call_s),
        "makespan_x_tries": took / ((wanted + facts.failed) * a_call_s),
        "after_last_call_s": ended - facts.last_paid / 1e9,
    }


def measure_kill(env: BenchEnvironment, adapter: Adapter) -> Outcome:
    """W3: kill the worker at a random share of the tasks, and start another."""
    n = len(env.config.tasks)
    share = Random(env.folder.name).uniform(*KILL_SHARES)
    adapter.setup()
    adapter.enqueue()
    with run_workers(adapter) as groups:
        wait_until_begun(env, groups)
        wait_until_done(env, groups, round(n * share))
        groups[0].kill()
    at = time.monotonic()
    facts = env.ledger.poll()
    in_progress = len(facts.starts) - len(facts.dones)
    with run_workers(adapter) as groups:
        wait_until(
            lambda: count_done(env, groups) >= n, RECOVERY_TIMEOUT_S, every_s=POLL_S
        )
        wait_until_settled(adapter)
    adapter.teardown()
    facts = env.ledger.poll()
    first = next((t for t in facts.started_at if t > at * 1e9), 0)
    return Outcome(
        {
            "tasks": n,
            "in_progress": in_progress,
            "lost": n - len(facts.dones),
            "started_again": facts.started_again,
            "repeated": facts.repeated,
            "recovery_s": facts.last_done / 1e9 - at,
            "first_again_s": first / 1e9 - at,
        }
    )


def cpu_used(env: BenchEnvironment, adapter: Adapter, groups: list[Group]) -> Cpu:
    """Return the CPU that was used so far."""
    workers_s = sum(group.cpu_s for group in groups)
    return Cpu(workers_s, env.aws.cpu_s, adapter.server_cpu_s())


# ── measure W4 ────────────────────────────────────────────────────────────────


def measure_many_jobs(
    env: BenchEnvironment, adapter: PieceworkAdapter, jobs: int
) -> Outcome:
    """Submit many jobs, then let one worker process all of them."""
    adapter.jobs = [f"job-{number}" for number in range(jobs)]
    outcome = measure_no_op(env, adapter)
    return Outcome(
        {**outcome.values, "jobs_per_s": jobs / outcome.values["all_s"]}, outcome.counts
    )
