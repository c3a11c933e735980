"""Let a policy scale a fleet through a case, and measure the result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Literal

from verification.scaling.alarm import Source
from verification.scaling.arrivals import BEFORE_S, Case
from verification.scaling.figures import Figures
from verification.scaling.fleet import START_S, Fleet
from verification.scaling.policy import Scaling

SLOTS = 16
#: Seconds after each minute at which alarms are evaluated.
POLL_S = 15
#: Percent of a worker's processor that a chunk takes: it waits for models.
CPU_PERCENT = 2.0
#: Hours after which a case ends, whatever is left.
LONGEST_H = 12
SQS, ECS, INSIGHTS, OURS = "AWS/SQS", "AWS/ECS", "ECS/ContainerInsights", "Piecework"


@dataclass(frozen=True, slots=True)
class World:
    """What may differ on AWS.

    Attributes:
        protection: "built": workers ask ECS for it as they do. They pause now and then,
            so that a deployment gets through. "kept": without pauses. "none".
        counts_none: ECS reports a number of tasks that is 0.
    """

    protection: Literal["built", "kept", "none"] = "built"
    counts_none: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a case.

    Attributes:
        all_ended_s: From the first chunk to the end of the last.
        ideal_s: The same, had the most tasks been launched with the first chunk.
        first_s: From the first chunk to the first that was begun.
        waits: Seconds from a chunk's sending to its begin, sorted.
        task_minutes: The time of tasks, from their launch to their end.
        ideal_minutes: The time of tasks whose slots are in use all the time.
        interrupted: Chunks that a scale-in cut off; they go on elsewhere.
        pauses: Times that a worker received nothing, and then ended its protection.
        reversals: Times that scaling changed its direction.
        peak: The most tasks at a time.
        left: Tasks wanted at the end.
    """

    all_ended_s: float
    ideal_s: float
    first_s: float
    waits: tuple[float, ...]
    task_minutes: float
    ideal_minutes: float
    interrupted: int
    pauses: int
    reversals: int
    peak: int
    left: int

    def wait(self, share: float) -> float:
        """Return how long such a share of the chunks waited at the most."""
        return self.waits[min(len(self.waits) - 1, int(share * len(self.waits)))]

    @property
    def cost(self) -> float:
        """Return how many times the ideal task-minutes it took."""
        return self.task_minutes / self.ideal_minutes


def simulate(
    case: Case, scaling: Scaling, seed: int, world: World = World()
) -> Outcome:
    """Run a case to its end, and until every task is gone that may go."""
    rng = Random(seed)
    fleet = Fleet(case.chunks, SLOTS, world.protection, rng, desired=scaling.least)
    figures = Figures(Random(seed + 1))
    targets = [fleet.desired]
    least_s = case.hours * 3600 + BEFORE_S
    for now in range(LONGEST_H * 3600):
        fleet.second(float(now))
        if now % 60 == 59:
            figures.note(now // 60, dict(reported(fleet, case, now, world)))
        if now % 60 == POLL_S:
            seen = figures.seen(scaling.needs, now)
            fleet.desired = scaling.desired(seen, fleet.desired, now)
            targets.append(fleet.desired)
        asleep = fleet.desired == scaling.least and len(fleet.tasks) <= scaling.least
        if fleet.over and asleep and now >= least_s:
            break
    return outcome(case, fleet, targets, scaling)


def reported(
    fleet: Fleet, case: Case, now: float, world: World
) -> Iterator[tuple[Source, float]]:
    """Yield what the queue, ECS and the workers report of the minute that ends now."""
    running = fleet.running(now)
    in_progress = [len(t.in_progress) for t in running if (now - t.ready) >= 60]
    begun = bool(fleet.visible or fleet.begun_at)
    first = case.chunks[0].at
    if not case.silent_s or (begun and now - first >= case.silent_s):
        yield from of_queue(fleet, now)
    if running or world.counts_none:
        yield Source(INSIGHTS, "RunningTaskCount", "Maximum"), len(running)
    if fleet.desired or world.counts_none:
        yield Source(INSIGHTS, "DesiredTaskCount", "Maximum"), fleet.desired
    if running:
        busy = sum(len(t.in_progress) for t in running) / len(running)
        yield Source(ECS, "CPUUtilization", "Average"), CPU_PERCENT * busy
    if in_progress:
        average = sum(in_progress) / len(in_progress)
        yield Source(OURS, "ChunksInProgress", "Average"), average
        yield Source(OURS, "ChunksInProgress", "Maximum"), max(in_progress)
    open_ = now >= first and not fleet.over
    yield Source(OURS, "JobsActive", "Maximum"), float(open_)
    # The policy adds visible messages and backlog, so all that waits is visible here.
    yield Source(OURS, "ChunksInBacklog", "Maximum"), 0.0


def of_queue(fleet: Fleet, now: float) -> Iterator[tuple[Source, float]]:
    """Yield the figures of the queue; two of them only when there are messages."""
    visible = "ApproximateNumberOfMessagesVisible"
    yield Source(SQS, visible, "Maximum"), len(fleet.visible)
    yield Source(SQS, visible, "SampleCount"), 1.0
    held = sum(len(task.in_progress) for task in fleet.tasks) + fleet.hidden
    if held:
        hidden = "ApproximateNumberOfMessagesNotVisible"
        yield Source(SQS, hidden, "Maximum"), held
    oldest = fleet.oldest_s(now)
    if oldest is not None:
        yield Source(SQS, "ApproximateAgeOfOldestMessage", "Maximum"), oldest


def outcome(case: Case, fleet: Fleet, targets: list[int], scaling: Scaling) -> Outcome:
    """Return the figures of a case that is over."""
    begin = case.chunks[0].at
    work_s = sum(c.seconds * (2 if c.hidden_s else 1) for c in case.chunks)
    longest = max(chunk.seconds for chunk in case.chunks)
    start = sum(START_S) / 2
    packed = max(longest, work_s / SLOTS / scaling.most)
    steps = [b - a for a, b in pairwise(targets) if a != b]
    pairs = pairwise(steps)
    return Outcome(
        all_ended_s=max(fleet.done_at.values(), default=0.0) - begin,
        ideal_s=start + packed,
        first_s=min(fleet.begun_at.values(), default=0.0) - begin,
        waits=tuple(sorted(at - case.chunks[n].at for n, at in fleet.begun_at.items())),
        task_minutes=fleet.task_s / 60,
        ideal_minutes=work_s / SLOTS / 60,
        interrupted=fleet.interrupted,
        pauses=fleet.pauses,
        reversals=sum((a > 0) != (b > 0) for a, b in pairs),
        peak=max(targets),
        left=targets[-1],
    )
