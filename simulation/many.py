"""Many schedules, on all cores; their sums, and whatever broke."""

from __future__ import annotations

import multiprocessing
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice

from simulation.acts import Work
from simulation.coverage import CHUNK_WAYS, JOB_WAYS
from simulation.faults import KINDS
from simulation.given import Given, load_works
from simulation.remains import collect, collected_by_hand
from simulation.schedule import Verdict, run_schedule

#: Seeds that a process is handed at once.
SOME = 20
#: Groups that are handed out at once, for each process.
AHEAD = 2
#: Broken schedules that are told of one by one.
TOLD = 10


@dataclass(slots=True)
class Sum:
    """What came of many schedules."""

    schedules: int = 0
    broken: list[tuple[int, Sequence[str]]] = field(default_factory=list)
    fired: Counter[str] = field(default_factory=Counter)
    ways: Counter[str] = field(default_factory=Counter)
    jobs: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    paid: int = 0
    paid_again: int = 0
    seconds: float = 0.0

    def add(self, verdict: Verdict) -> None:
        """Add a schedule."""
        self.schedules += 1
        if verdict.broken:
            self.broken.append((verdict.seed, verdict.broken))
        self.fired.update(verdict.fired)
        self.ways.update(verdict.ways)
        self.jobs.update(verdict.jobs)
        self.codes.update(verdict.codes)
        self.requests += verdict.requests
        self.paid += verdict.paid
        self.paid_again += verdict.paid_again
        self.seconds += verdict.seconds

    @property
    def never_fired(self) -> list[str]:
        """The kinds of faults that never happened."""
        return sorted(kind for kind in KINDS if not self.fired[kind])

    @property
    def never_gone(self) -> list[str]:
        """The ways of the state machines that were never gone."""
        return [way for way in [*CHUNK_WAYS, *JOB_WAYS] if not self.ways[way]]


def run_many(
    given: Given,
    seeds: range,
    processes: int,
    told: Callable[[Sum], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Sum:
    """Run the schedules of many seeds, in their order; `told` hears of each sum.

    Once `stopped` says so no more are begun: the sum is that of the first seeds.
    """
    total = Sum()
    for verdicts in run_some(given, seeds, processes, stopped):
        for verdict in verdicts:
            total.add(verdict)
        told(total)
    return total


def run_some(
    given: Given, seeds: range, processes: int, stopped: Callable[[], bool]
) -> Iterator[Sequence[Verdict]]:
    """Yield verdicts, some at a time, in the order of their seeds."""
    begin(given)  # here, too: what is wrong with it is said once
    groups = (seeds[at : at + SOME] for at in range(0, len(seeds), SOME))
    if processes == 1 or len(seeds) <= SOME:
        for group in groups:
            yield run_group(group)
            if stopped():
                break
        return
    # A fresh process knows nothing of ours: no locks, no threads, no open sockets.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, begin_apart, (given,)) as pool:
        ahead = islice(groups, AHEAD * processes)
        under_way = deque(pool.submit(run_group, group) for group in ahead)
        while under_way:
            yield under_way.popleft().result()
            if not stopped():
                more = islice(groups, 1)
                under_way += [pool.submit(run_group, group) for group in more]


_works: list[Work] = []


def begin(given: Given) -> None:
    """Make a process ready to run schedules."""
    _works[:] = load_works(given)


def begin_apart(given: Given) -> None:
    """Make a process of its own ready; who tells all of us to stop means the first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    begin(given)


def run_group(seeds: range) -> list[Verdict]:
    """Run some schedules."""
    verdicts = []
    with collected_by_hand():
        for seed in seeds:
            verdicts.append(run_schedule(seed, _works))
            collect()
    return verdicts
