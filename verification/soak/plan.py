"""What a soak is made of, decided by its seed: jobs, troubles, disruptions."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from verification.soak import pipelines
from verification.soak.pipelines import Work

#: Short, so that it fits; their relations are the real ones.
PACE = {
    "PIECEWORK_LEASE_S": "3",
    "PIECEWORK_VISIBILITY_S": "4",
    "PIECEWORK_CLOCK_SKEW_S": "0.5",
    "PIECEWORK_RECONCILE_S": "1",
    "PIECEWORK_REDISPATCH_S": "20",
    "PIECEWORK_RECEIVE_WAIT_S": "1",
    "PIECEWORK_SHUTDOWN_GRACE_S": "1",
    "PIECEWORK_MAX_CHUNKS": "5",
}
#: In each 100 chunks of a pipeline, this many cause this trouble until it is fixed.
TROUBLES = {
    "plain": {"sum-up": 2},
    "joined": {"sum-up": 2},
    "saga": {"quote": 1, "hold": 3, "charge": 3, "deliver": 3},
}
#: One chunk in so many kills its worker each time.
POISON_EVERY = 500
#: The number, among eight jobs, of the job whose killed submit the reconciler ends.
LEFT_ALONE = 5
JOB_SIZE = 60
#: More than a group of 256, so that there is more than one tally.
LARGE_JOB = 270
#: Per chunk of the plan. With kills, each comes to at least one.
DUPLICATED, LOST, RECONCILERS = 0.02, 0.01, 0.003
#: Cancels of each kind, under faults and without: how many for a chunk, and how many at
#: most. The last number is the share of the run, from its start, in which they come:
#: large jobs run then.
CANCELS, MOST_CANCELS, CANCELLED_IN = 0.002, 10, 0.8


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A job.

    Attributes:
        submits_killed: How often its submit is killed half-way.
        left_alone: Whether no process repeats the killed submit: if the job is on
            record, the reconciler finishes it.
    """

    name: str
    pipeline: str
    work: tuple[Work, ...]
    submits_killed: int
    left_alone: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """A soak."""

    chunks: int = 1000
    kills: int = 25
    freezes: int = 5
    stops: int = 5
    seed: int = 1
    workers: int = 4

    def rng(self, of: str) -> Random:
        """Return the chance of one part of the soak."""
        return Random(f"{self.seed}/{of}")

    def jobs(self) -> list[JobPlan]:
        """Return the jobs, in the order in which they are submitted."""
        rng, left = self.rng("jobs"), self.chunks
        jobs: list[JobPlan] = []
        while left:
            number = len(jobs)
            size = LARGE_JOB if number == 0 and left > 2 * LARGE_JOB else JOB_SIZE
            size = min(left, size, max(1, self.chunks // 3))
            name = pipelines.ALL[number % len(pipelines.ALL)].name
            work = tuple(chunk(rng, name, n) for n in range(size))
            killed = int(number % 4 == 1 and self.kills > 0)
            left_alone = number % 8 == LEFT_ALONE
            jobs.append(JobPlan(f"{name}-{number}", name, work, killed, left_alone))
            left -= size
        return jobs

    def disruptions(self) -> list[str]:
        """Return the names of the disruptions, in their order."""
        whole = self.chunks if self.kills else 0
        counts = {
            "kill": self.kills,
            "freeze": self.freezes,
            "stop": self.stops,
            "duplicate": -(-whole * DUPLICATED // 10),
            "lose": -(-whole * LOST // 10),
            "reconciler": -(-whole * RECONCILERS // 1),
        }
        disruptions = [name for name, n in counts.items() for _ in range(int(n))]
        rng = self.rng("disruptions")
        rng.shuffle(disruptions)
        cancels = ["cancel", "cancel_without_faults"] * self.cancels
        for number, cancel in enumerate(cancels):
            share = CANCELLED_IN * (number + rng.random()) / len(cancels)
            disruptions.insert(number + int(share * len(disruptions)), cancel)
        return disruptions

    @property
    def cancels(self) -> int:
        """How many jobs are cancelled under faults, and how many without."""
        return min(MOST_CANCELS, int(self.chunks * CANCELS)) if self.kills else 0


def chunk(rng: Random, pipeline: str, n: int) -> Work:
    """Return a chunk's work, with its trouble if it has one."""
    if pipeline == "plain" and rng.random() < len(pipelines.ALL) / POISON_EVERY:
        return Work(n=n, trouble=pipelines.POISON)
    drawn = rng.uniform(0, 100)
    for trouble, share in TROUBLES[pipeline].items():
        if drawn < share:
            return Work(n=n, trouble=trouble)
        drawn -= share
    return Work(n=n)
