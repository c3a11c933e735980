"""Run many schedules on all cores, and sum up their verdicts."""

from __future__ import annotations

import multiprocessing
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice

from simulation.acts import Workload
from simulation.coverage import CHUNK_TRANSITIONS, JOB_TRANSITIONS
from simulation.faults import KINDS
from simulation.given import Inputs, load_workloads
from simulation.remains import collect, collecting_manually
from simulation.schedule import Verdict, run_schedule

#: Seeds in each group that a process receives.
SEEDS_PER_GROUP = 20
#: Groups submitted ahead, for each process.
GROUPS_PER_PROCESS = 2
#: Maximum violated schedules that are listed one by one.
MAX_LISTED = 10


@dataclass(slots=True)
class Totals:
    """The sums of many verdicts."""

    schedules: int = 0
    violations: list[tuple[int, Sequence[str]]] = field(default_factory=list)
    fired: Counter[str] = field(default_factory=Counter)
    transitions: Counter[str] = field(default_factory=Counter)
    jobs: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    paid: int = 0
    paid_twice: int = 0
    seconds: float = 0.0

    def add(self, verdict: Verdict) -> None:
        """Add a schedule."""
        self.schedules += 1
        if verdict.violations:
            self.violations.append((verdict.seed, verdict.violations))
        self.fired.update(verdict.fired)
        self.transitions.update(verdict.transitions)
        self.jobs.update(verdict.jobs)
        self.codes.update(verdict.codes)
        self.requests += verdict.requests
        self.paid += verdict.paid
        self.paid_twice += verdict.paid_twice
        self.seconds += verdict.seconds

    @property
    def never_fired(self) -> list[str]:
        """The kinds of faults that never happened."""
        return sorted(kind for kind in KINDS if not self.fired[kind])

    @property
    def never_taken(self) -> list[str]:
        """The transitions that no schedule took."""
        return [
            way
            for way in [*CHUNK_TRANSITIONS, *JOB_TRANSITIONS]
            if not self.transitions[way]
        ]


def run_schedules(
    inputs: Inputs,
    seeds: range,
    processes: int,
    report: Callable[[Totals], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Totals:
    """Run the schedules of many seeds in order; call `report` with each new total.

    When `stopped` returns True, no more groups start. The total then covers the first
    seeds only.
    """
    total = Totals()
    for verdicts in run_groups(inputs, seeds, processes, stopped):
        for verdict in verdicts:
            total.add(verdict)
        report(total)
    return total


def run_groups(
    inputs: Inputs, seeds: range, processes: int, stopped: Callable[[], bool]
) -> Iterator[Sequence[Verdict]]:
    """Yield verdicts, some at a time, in the order of their seeds."""
    load_process(inputs)  # in this process, too: invalid inputs fail here, once
    groups = (
        seeds[at : at + SEEDS_PER_GROUP] for at in range(0, len(seeds), SEEDS_PER_GROUP)
    )
    if processes == 1 or len(seeds) <= SEEDS_PER_GROUP:
        for group in groups:
            yield run_group(group)
            if stopped():
                break
        return
    # A spawned process shares no locks, threads or open sockets with this one.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, load_child_process, (inputs,)) as pool:
        ahead = islice(groups, GROUPS_PER_PROCESS * processes)
        pending = deque(pool.submit(run_group, group) for group in ahead)
        while pending:
            yield pending.popleft().result()
            if not stopped():
                more = islice(groups, 1)
                pending += [pool.submit(run_group, group) for group in more]


_works: list[Workload] = []


def load_process(inputs: Inputs) -> None:
    """Make a process ready to run schedules."""
    _works[:] = load_workloads(inputs)


def load_child_process(inputs: Inputs) -> None:
    """Prepare a child process; the parent handles the stop signals for all."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    load_process(inputs)


def run_group(seeds: range) -> list[Verdict]:
    """Run some schedules."""
    verdicts = []
    with collecting_manually():
        for seed in seeds:
            verdicts.append(run_schedule(seed, _works))
            collect()
    return verdicts
