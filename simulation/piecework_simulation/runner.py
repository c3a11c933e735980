"""Run many schedules on all cores, and sum up their verdicts."""

from __future__ import annotations

import multiprocessing
import shlex
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from types import FrameType
from typing import Any, Self

from piecework_simulation.coverage import TRANSITIONS
from piecework_simulation.driver.actions import Workload
from piecework_simulation.driver.inputs import Inputs, load_workloads
from piecework_simulation.driver.schedule import Verdict, run_schedule
from piecework_simulation.engine.faults import KINDS
from piecework_simulation.engine.leftovers import collect, collecting_manually

#: Seeds in each group that a process receives.
SEEDS_PER_GROUP = 5
#: Groups submitted ahead, for each process. The verdicts are taken in order, so that
#: the others go on beside a schedule that takes a minute.
GROUPS_PER_PROCESS = 50
#: Maximum violated schedules that are listed one by one.
MAX_LISTED = 10


@dataclass(slots=True)
class Totals:
    """The sums of many verdicts.

    Attributes:
        succeeded: The jobs that were SUCCEEDED at some time; later deletions count not.
        unstubbed: The functions whose stub no schedule used; None: none has run.
    """

    schedules: int = 0
    succeeded: int = 0
    violations: list[tuple[int, Sequence[str]]] = field(default_factory=list)
    fired: Counter[str] = field(default_factory=Counter)
    transitions: Counter[str] = field(default_factory=Counter)
    jobs: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    paid: int = 0
    paid_twice: int = 0
    seconds: float = 0.0
    unstubbed: frozenset[str] | None = None

    def add(self, verdict: Verdict) -> None:
        """Add a schedule."""
        self.schedules += 1
        if verdict.violations:
            self.violations.append((verdict.seed, verdict.violations))
        self.fired.update(verdict.fired)
        self.transitions.update(verdict.transitions)
        self.jobs.update(verdict.jobs)
        self.succeeded += verdict.succeeded
        self.codes.update(verdict.codes)
        self.requests += verdict.requests
        self.paid += verdict.paid
        self.paid_twice += verdict.paid_twice
        self.seconds += verdict.seconds
        before = self.unstubbed
        unused = verdict.unstubbed
        self.unstubbed = unused if before is None else before & unused

    @property
    def never_fired(self) -> list[str]:
        """The kinds of faults that never happened."""
        return sorted(kind for kind in KINDS if not self.fired[kind])

    @property
    def never_taken(self) -> list[str]:
        """The transitions that no schedule took."""
        return [way for way in TRANSITIONS if not self.transitions[way]]


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
    if processes == 1 or len(seeds) <= SEEDS_PER_GROUP:
        for verdict in run_each(seeds):
            yield [verdict]
            if stopped():
                break
        return
    groups = (
        seeds[at : at + SEEDS_PER_GROUP] for at in range(0, len(seeds), SEEDS_PER_GROUP)
    )
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
    return list(run_each(seeds))


def run_each(seeds: range) -> Iterator[Verdict]:
    """Run schedules one by one."""
    with collecting_manually():
        for seed in seeds:
            yield run_schedule(seed, _works)
            collect()


# ── report the progress of a long run, and stop it on a signal ────────────────

#: Seconds between two lines. A log gets fewer lines later: see `Progress.is_due`.
INTERVAL_S = 1.0
#: The share of the time so far that passes between two lines of a log.
LOG_SHARE = 1 / 60


@dataclass(slots=True)
class Progress:
    """Tells how many schedules have run: a line each second, from a thread of its own.

    One schedule may take several seconds.
    """

    schedules: int
    began: float
    done: int = 0
    violations: int = 0
    _told_at: float = field(init=False)
    _ended: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        """Start the first interval now."""
        self._told_at = self.began
        self._thread = threading.Thread(target=self._tell_each_second, daemon=True)

    def __enter__(self) -> Self:
        """Start to tell."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Tell no more."""
        self._ended.set()
        self._thread.join()
        self._write("", end="")

    def report(self, total: Totals) -> None:
        """Note the sums; write each new violation at once."""
        for seed, texts in total.violations[self.violations :]:
            self._write(f"seed {seed}: {'; '.join(dict.fromkeys(texts))}")
        self.done, self.violations = total.schedules, len(total.violations)

    def tell(self, now: float) -> None:
        """Write a line of sums if it is time for one."""
        if not self.is_due(now):
            return
        self._told_at = now
        rate = self.done / (now - self.began)
        line = f"{self.done:,} of {self.schedules:,} schedules, "
        line += f"{self.violations} violation{'s' * (self.violations != 1)}, "
        line += f"{rate:.1f} a second"
        self._write(line, end="" if sys.stderr.isatty() else "\n")

    def is_due(self, now: float) -> bool:
        """Return whether the next line is due: each second, later in a log less often.

        The log of a run of an hour has some hundred lines.
        """
        share = 0.0 if sys.stderr.isatty() else LOG_SHARE * (now - self.began)
        return now - self._told_at >= max(INTERVAL_S, share)

    def _tell_each_second(self) -> None:
        while not self._ended.wait(INTERVAL_S / 4):
            self.tell(time.monotonic())

    def _write(self, line: str, end: str = "\n") -> None:
        begin = "\r\033[K" if sys.stderr.isatty() else ""
        with self._lock:
            sys.stderr.write(f"{begin}{line}{end}")
            sys.stderr.flush()


@dataclass(slots=True)
class StopSignals:
    """Stops a run after its current schedules, on SIGTERM or Ctrl-C.

    A second signal ends the run at once.

    Attributes:
        signal_number: The signal that was received; 0: none.
    """

    signal_number: int = 0
    _before: dict[int, Any] = field(default_factory=dict)

    @property
    def code(self) -> int:
        """The shell's exit code for this signal; 0 without a signal."""
        return 128 + self.signal_number if self.signal_number else 0

    def __enter__(self) -> Self:
        """Install the signal handlers."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self.on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the previous signal handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def on_signal(self, number: int, _: FrameType | None) -> None:
        """Note a signal."""
        self.signal_number = number
        for each in self._before:
            signal.signal(each, signal.SIG_DFL)


# ── format the results of many schedules for the terminal ─────────────────────


def headline(total: Totals) -> str:
    """Return the first line: how many schedules violated an invariant."""
    violations, schedules = len(total.violations), total.schedules
    return (
        f"{violations:,} violation{'s' * (violations != 1)}"
        f" in {schedules:,} schedule{'s' * (schedules != 1)}\n"
    )


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
            format_counts((way, total.transitions[way]) for way in TRANSITIONS),
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
    words = ["python", "-m", "piecework_simulation"]
    if inputs.pipeline:
        words = ["piecework", "simulate", inputs.pipeline, inputs.source]
    if inputs.stubs:
        words += ["--stubs", inputs.stubs]
    return shlex.join([*words, "--seed", str(seed), "--trace"])


def last_line(total: Totals, seed: int, seconds: float) -> str:
    """Return the figures, for machines."""
    rarest = min(total.fired.values(), default=0)
    gone = len(TRANSITIONS) - len(total.never_taken)
    facts = {
        "schedules": total.schedules,
        "seeds": f"{seed}-{seed + total.schedules - 1}",
        "violations": len(total.violations),
        "rarest_fault": rarest,
        "transitions": f"{gone}/{len(TRANSITIONS)}",
        "paid_twice": total.paid_twice,
        "seconds": round(seconds),
    }
    return " ".join(f"{name}={value}" for name, value in facts.items()) + "\n"
