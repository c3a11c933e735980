"""Plan the runs and their sizes: a short form and the full one.

Every system runs the same workload in the same round, so that noise affects all alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeAlias

from bench import large_job, latencies, workloads
from bench.adapters.systems import PIECEWORK, PIECEWORK_EXCLUSIONS, RIVALS, Rival
from bench.emulator import Kind
from bench.environment import BenchEnvironment
from bench.workloads import Outcome, measure_many_jobs

Measure: TypeAlias = Callable[[BenchEnvironment, Any], Outcome]
Form: TypeAlias = Literal["short", "full"]
WORKLOADS = ("W0", "W1", "W2a", "W2b", "W3", "W4", "W5")

#: Maximum chunks of the largest job by default. With 100,000 messages in its queue,
#: MiniStack answers for 23 chunks a second.
LARGEST: Mapping[Kind, int] = {"models": 100_000, "ministack": 10_000}
NO_OP = {"concurrency": 32, "visibility_s": 30}
#: 20 calls of half a second in turn, with answers of 2 KB: what a chunk of paid calls
#: mostly does.
IN_TURN = {"concurrency": 64, "visibility_s": 30, "sleep_s": 0.5, "n": 0, "calls": 20}
IN_TURN |= {"in_turn": True, "answer_bytes": 2_048}
CALLS = {"concurrency": 64, "visibility_s": 10, "sleep_s": 0.05, "n": 0}
KILLED = {"concurrency": 32, "visibility_s": 5, "sleep_s": 0.02}


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a form."""

    rounds: int
    tasks: int
    in_turn: int
    killed: int
    kills: int
    growth: tuple[int, ...]
    shared: int
    workers: tuple[int, ...]
    jobs: int
    samples: int
    shown: int
    long: tuple[int, float]
    workloads: tuple[str, ...]
    rivals: tuple[str, ...]


#: The workloads as in `WORKLOADS`, for Piecework and for the rivals; W2a takes longest.
SIZES: Mapping[Form, Sizes] = {
    "short": Sizes(
        rounds=1,
        tasks=600,
        in_turn=64,
        killed=400,
        kills=1,
        growth=(100, 1_000),
        shared=600,
        workers=(2,),
        jobs=20,
        samples=1,
        shown=100_000,
        long=(8, 5.0),
        workloads=("W0", "W1", "W2b", "W3", "W4", "W5"),
        rivals=("W0", "W1", "W2b"),
    ),
    "full": Sizes(
        rounds=3,
        tasks=10_000,
        in_turn=128,
        killed=2_000,
        kills=20,
        growth=(100, 1_000, 10_000, 100_000),
        shared=4_000,
        workers=(1, 2, 4),
        jobs=200,
        samples=5,
        shown=1_000_000,
        long=(64, 30.0),
        workloads=WORKLOADS,
        rivals=("W0", "W1", "W2a", "W2b", "W3"),
    ),
}


@dataclass(frozen=True, slots=True)
class Step:
    """One run: workload, system, size and number of rounds."""

    workload: str
    system: str
    measure: Measure
    config: Mapping[str, Any]
    rival: Rival | None = None
    variant: str = ""
    rounds: int = 1

    @property
    def name(self) -> str:
        """The name in progress lines."""
        return " ".join(filter(None, [self.workload, self.variant, self.system]))

    @property
    def words(self) -> set[str]:
        """The names of its system on the command line."""
        return self.rival.words if self.rival else {self.system}


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options of the command; empty fields select everything."""

    form: Form = "short"
    workloads: Collection[str] = field(default_factory=tuple)
    systems: Collection[str] = field(default_factory=tuple)
    tasks: int = 0
    rounds: int = 0
    largest: int = 0
    aws_server: Kind = "models"


def plan(options: PlanOptions) -> list[Step]:
    """Return the runs of one round, in their order."""
    sizes = SIZES[options.form]
    if options.tasks:
        tasks = options.tasks
        sizes = replace(sizes, tasks=tasks, killed=tasks, in_turn=min(tasks, 128))
    if options.workloads:
        named = tuple(w for w in WORKLOADS if {w, w[:2]} & set(options.workloads))
        sizes = replace(sizes, workloads=named, rivals=named)
    largest = options.largest or LARGEST[options.aws_server]
    growth = tuple(n for n in sizes.growth if n <= largest)
    rounds = options.rounds or sizes.rounds
    kills = options.rounds or sizes.kills
    sizes = replace(sizes, rounds=rounds, kills=kills, growth=growth)
    return [
        step
        for step in all_steps(sizes)
        if not options.systems or step.words & set(options.systems)
    ]


def all_steps(sizes: Sizes) -> Iterator[Step]:
    """Yield each run once: a workload of all systems, then the next workload."""
    # Each round of W3 kills once, at a moment of its own.
    kills = replace(sizes, rounds=sizes.kills)
    in_turn = {**IN_TURN, "chunks": sizes.in_turn}
    configs: dict[str, tuple[Measure, dict[str, Any]]] = {
        "W0": (workloads.measure_calls, in_turn),
        "W1": (workloads.measure_no_op, {**NO_OP, "n": sizes.tasks}),
        "W2a": (workloads.measure_calls, CALLS),
        "W2b": (workloads.measure_calls, CALLS),
        "W3": (workloads.measure_kill, {**KILLED, "n": sizes.killed}),
    }
    for workload, (measure, config) in configs.items():
        # A chunk of W0 is one of W2b whose calls are in turn.
        full_config = {**config, "workload": "W2b" if workload == "W0" else workload}
        repeated = kills if workload == "W3" else sizes
        if workload in sizes.workloads and workload not in PIECEWORK_EXCLUSIONS:
            yield Step(
                workload, PIECEWORK, measure, full_config, rounds=repeated.rounds
            )
        for rival in RIVALS if workload in sizes.rivals else ():
            if workload not in rival.without:
                yield rival_step(
                    rival, Step(workload, rival.name, measure, full_config), repeated
                )
    if "W4" in sizes.workloads:
        yield from growth_steps(sizes)
    if "W5" in sizes.workloads:
        yield from latency_steps(sizes)


def rival_step(rival: Rival, step: Step, sizes: Sizes) -> Step:
    """Return the run of a rival."""
    config = {**step.config, "options": dict(rival.options)}
    if step.workload == "W1":
        config["n"] = min(sizes.tasks, rival.most)
    return replace(step, config=config, rival=rival, rounds=sizes.rounds)


def growth_steps(sizes: Sizes) -> Iterator[Step]:
    """Yield the runs of W4: larger jobs, more workers, many jobs, full hands."""
    base = {**NO_OP, "workload": "W1"}
    for n in sizes.growth:
        yield Step(
            "W4",
            PIECEWORK,
            workloads.measure_no_op,
            {**base, "n": n},
            variant=f"{n} chunks",
        )
    for workers in sizes.workers:
        config = {**base, "n": sizes.shared}
        measure = partial(workloads.measure_no_op, workers=workers)
        noun = "worker" if workers == 1 else "workers"
        yield Step("W4", PIECEWORK, measure, config, variant=f"{workers} {noun}")
    config = {**base, "n": 10}
    measure = partial(measure_many_jobs, jobs=sizes.jobs)
    yield Step("W4", PIECEWORK, measure, config, variant=f"{sizes.jobs} jobs")
    config = {**base, "n": sizes.shared, "concurrency": 64, "sleep_s": 0.02}
    yield Step(
        "W4", PIECEWORK, workloads.measure_no_op, config, variant="64 in progress"
    )


def latency_steps(sizes: Sizes) -> Iterator[Step]:
    """Yield the W5 runs, which measure latencies."""
    base = {**KILLED, "workload": "W3", "n": 1, "sleep_s": 0.0}
    measure = partial(latencies.measure_begin_and_end, samples=sizes.samples)
    yield Step("W5", PIECEWORK, measure, base, variant="begin and end")
    held = {**base, "n": 64, "concurrency": 64, "sleep_s": 20.0}
    yield Step(
        "W5",
        PIECEWORK,
        latencies.measure_cancel,
        held,
        variant="cancel",
        rounds=sizes.samples,
    )
    for lease_s in (base["visibility_s"], 18):
        yield Step(
            "W5",
            PIECEWORK,
            latencies.measure_takeover,
            {**base, "sleep_s": 60.0, "visibility_s": lease_s},
            variant=f"takeover, lease {lease_s} s",
            rounds=sizes.kills,
        )
    shown = {**base, "n": sizes.shown}
    variant = f"jobs show of {sizes.shown:,}"
    yield Step("W5", PIECEWORK, large_job.measure_show, shown, variant=variant)
    chunks, seconds = sizes.long
    long = {**base, "n": chunks, "sleep_s": seconds, "concurrency": 16}
    yield Step(
        "W5",
        PIECEWORK,
        latencies.measure_long_chunks,
        {**long, "visibility_s": 18},
        variant=f"chunks of {seconds:g} s",
    )
