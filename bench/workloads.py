"""W1, W2 and W3, the same for every contender: what is done, timed and counted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from bench.counts import Counts
from bench.ledger import Facts
from bench.processes import Group, until
from bench.rivals.protocol import Config
from bench.stand import Contender, Stand
from bench.waiting import LOOK_S, begun, done, finished, ready, settled, working
from orchestrator.pricing.table import load_prices

Values: TypeAlias = dict[str, float]
#: Seconds after a kill by which all is to be done.
DEADLINE_S = 75.0
#: Seconds that an idle worker is left alone before it is given work.
WARM_S = 1.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to: figures by name, and what was asked of AWS."""

    values: Values
    counts: Counts = field(default_factory=Counts)


@dataclass(frozen=True, slots=True)
class Cpu:
    """Seconds of CPU: of the workers, the emulator, a rival's server."""

    worker_s: float
    emulator_s: float
    server_s: float

    def since(self, before: Cpu) -> Cpu:
        """Return what was used after another look."""
        return Cpu(
            self.worker_s - before.worker_s,
            self.emulator_s - before.emulator_s,
            self.server_s - before.server_s,
        )


@dataclass(frozen=True, slots=True)
class Drained:
    """How a queue was filled, and emptied again."""

    told: Mapping[str, float]
    filling: Counts
    counts: Counts
    cpu: Cpu
    rss_mb: float
    ended: float


def no_op(stand: Stand, contender: Contender, workers: int = 1) -> Outcome:
    """W1: submit all, then let the workers drain it."""
    contender.setup()
    drained = drain(stand, contender, workers)
    contender.teardown()
    figures = costs(drained) | rates(drained, stand.ledger.look())
    return Outcome(figures, drained.counts)


def drain(stand: Stand, contender: Contender, workers: int) -> Drained:
    """Fill the queue, and let it be emptied."""
    before = stand.counts()
    told = contender.enqueue()
    submitted = stand.counts()
    with working(contender, workers) as groups:
        begun(stand, groups)
        cpu = used(stand, contender, groups)
        finished(stand, groups, round(told["submitted"]))
        ended = contender.ended(settled(contender))
        return Drained(
            told,
            filling=submitted.since(before),
            counts=stand.counts().since(before),
            cpu=used(stand, contender, groups).since(cpu),
            rss_mb=max(group.rss_mb for group in groups),
            ended=ended,
        )


def costs(drained: Drained) -> Values:
    """Return what a task cost."""
    n, counts, cpu = drained.told["submitted"], drained.counts, drained.cpu
    found = {
        "submit_requests_per_task": drained.filling.requests / n,
        "requests_per_task": counts.requests / n,
        "write_units_per_task": counts.units(reads=False) / n,
        "read_units_per_task": counts.units(reads=True) / n,
        "usd_per_million": counts.usd(load_prices()) / n * 1e6,
        "submit_cpu_s_per_1000": drained.told.get("cpu", 0.0) / n * 1000,
        "worker_cpu_s_per_1000": cpu.worker_s / n * 1000,
        "emulator_cpu_s_per_1000": cpu.emulator_s / n * 1000,
        "worker_rss_mb": drained.rss_mb,
        "submit_rss_mb": drained.told.get("rss_mb", 0.0),
    }
    if cpu.server_s:
        found["server_cpu_s_per_1000"] = cpu.server_s / n * 1000
    return found


def rates(drained: Drained, facts: Facts) -> Values:
    """Return how fast it went, and whether all was done once."""
    n = drained.told["submitted"]
    return {
        "tasks": n,
        "submit_per_s": n / drained.told["seconds"],
        "drain_per_s": n / ((facts.last_done - facts.first_start) / 1e9),
        "finish_s": drained.ended - facts.last_done / 1e9,
        "all_s": drained.ended - facts.first_start / 1e9,
        "lost": n - len(facts.dones),
        "repeated": facts.repeated,
    }


def calls(stand: Stand, contender: Contender) -> Outcome:
    """W2: submit chunks of calls to a worker that waits for work."""
    config = stand.config
    contender.setup()
    with working(contender) as groups:
        ready(contender, groups)
        time.sleep(WARM_S)
        before = stand.counts()
        told = contender.enqueue()
        began = told["ended"] - told["seconds"]
        finished(stand, groups, len(config.tasks))
        ended = contender.ended(settled(contender, every_s=LOOK_S / 4))
        counts = stand.counts().since(before)
    contender.teardown()
    return Outcome(spans(config, stand.ledger.look(), began, ended, counts), counts)


def spans(
    config: Config, facts: Facts, began: float, ended: float, counts: Counts
) -> Values:
    """Return how long all calls took, and what was paid for."""
    wanted, took = config.chunks * config.calls, ended - began
    a_call_s = config.sleep_s / config.concurrency
    return {
        "makespan_s": took,
        "makespan_x_ideal": took / (wanted * a_call_s),
        "makespan_x_tries": took / ((wanted + facts.failed) * a_call_s),
        "first_call_s": facts.first_call / 1e9 - config.sleep_s - began,
        "after_last_call_s": ended - facts.last_paid / 1e9,
        "executions": sum(facts.paid.values()) + facts.failed,
        "failed_calls": facts.failed,
        "paid_twice": facts.paid_twice,
        "lost": wanted - len(facts.paid),
        "requests": counts.requests,
    }


def killed(stand: Stand, contender: Contender) -> Outcome:
    """W3: kill the worker with half of the work done, and start another at once."""
    n = len(stand.config.tasks)
    contender.setup()
    contender.enqueue()
    with working(contender) as groups:
        begun(stand, groups)
        finished(stand, groups, n // 2)
        groups[0].kill()
    at = time.monotonic()
    facts = stand.ledger.look()
    in_hand = len(facts.starts) - len(facts.dones)
    with working(contender) as groups:
        until(lambda: done(stand, groups) >= n, DEADLINE_S, every_s=LOOK_S)
        settled(contender)
    contender.teardown()
    facts = stand.ledger.look()
    first = next((t for t in facts.started_at if t > at * 1e9), 0)
    return Outcome(
        {
            "tasks": n,
            "in_hand": in_hand,
            "lost": n - len(facts.dones),
            "started_again": facts.started_again,
            "repeated": facts.repeated,
            "recovery_s": facts.last_done / 1e9 - at,
            "first_again_s": first / 1e9 - at,
        }
    )


def used(stand: Stand, contender: Contender, groups: list[Group]) -> Cpu:
    """Return the CPU that was used so far."""
    workers_s = sum(group.cpu_s for group in groups)
    return Cpu(workers_s, stand.aws.cpu_s, contender.server_cpu_s())
