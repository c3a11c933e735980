"""Estimate when a job ends: the seconds left, as P50 and P90.

Nothing here reads or writes. The estimate simulates the rest of the job many times.
Chunks with observed durations enter as many slots as the observed rate of ends needs
(Little's law). So it follows the limit that binds: slots of workers, the limits of a
dependency, or waits between attempts.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from piecework.domain.chunk import Chunk
from piecework.domain.moments import moment
from piecework.domain.states import ChunkStatus

#: The fewest ended chunks for an estimate.
MIN_ENDED: Final = 8
#: The share of the ended chunks, the latest ones, by which the rate is measured. And
#: the fewest of them.
RECENT_SHARE: Final = 1 / 3
MIN_RECENT: Final = 20
#: Simulations of the rest. And the most chunks of one simulation; all further chunks
#: follow the rate. And the most durations from which it draws.
SIMULATIONS: Final = 80
MAX_SIMULATED: Final = 400
MAX_DRAWN: Final = 300
#: The least relative error of a rate: workers and dependencies do not keep one.
LEAST_ERROR: Final = 0.12
#: The rest of a chunk that has run longer than all others, as a share of its time.
OVERDUE_SHARE: Final = 0.25
#: Seconds of the shortest duration: claim and end may be in one millisecond.
LEAST_S: Final = 1e-3


@dataclass(slots=True)
class ChunkTimes:
    """The times of a job's chunks in one generation; seconds since 1970.

    Attributes:
        spans: Claim and end of each ended chunk that was claimed.
        claimed: The claim of each running chunk.
    """

    gen: int
    spans: list[tuple[float, float]] = field(default_factory=list)
    claimed: list[float] = field(default_factory=list)

    def add(self, chunk: Chunk) -> None:
        """Add the times of a chunk."""
        if chunk.gen != self.gen or not chunk.claimed_at:
            return
        if chunk.status is ChunkStatus.RUNNING:
            self.claimed.append(moment(chunk.claimed_at))
        elif chunk.ended_at:
            self.spans.append((moment(chunk.claimed_at), moment(chunk.ended_at)))


@dataclass(frozen=True, slots=True)
class Throughput:
    """How fast the chunks of a job end.

    Attributes:
        rate: Chunks in a second.
        chunks: The chunks that it was measured on.
        durations: Those of recent chunks, in seconds.
    """

    rate: float
    chunks: float
    durations: Sequence[float]


@dataclass(frozen=True, slots=True)
class FinishTime:
    """The seconds until the end of a job: exceeded in half, and in a tenth of cases."""

    p50_s: float
    p90_s: float


def throughput_of_all(times: ChunkTimes, now: float) -> Throughput | None:
    """Return the throughput from the times of all chunks; None: too few have ended."""
    if len(times.spans) < MIN_ENDED:
        return None
    spans = sorted(times.spans, key=lambda span: span[1])
    recent = spans[-max(MIN_RECENT, round(len(spans) * RECENT_SHARE)) :]
    durations = [duration_of(span) for span in recent]
    earlier = spans[: -len(recent)]
    since = earlier[-1][1] if earlier else min(start for start, _ in recent)
    if now <= since:
        return None
    done = work_done(times, since, now, mean_of(durations))
    # All chunks tell of rare long ones; the recent ones tell how long they take now.
    every = [duration_of(span) for span in spans]
    by = mean_of(durations) / mean_of(every)
    return Throughput(done / (now - since), done, [duration * by for duration in every])


def throughput_since(
    times: ChunkTimes, since: float, ended: int, now: float
) -> Throughput | None:
    """Return the throughput from the number that ended since a time; None: too few.

    `times`: those of some of the chunks.
    """
    if ended < MIN_ENDED or now <= since or not times.spans:
        return None
    durations = [duration_of(span) for span in times.spans]
    return Throughput(ended / (now - since), ended, durations)


def work_done(times: ChunkTimes, since: float, now: float, mean: float) -> float:
    """Return how many chunks' worth of work was done in a window of time.

    A chunk that ran only partly inside counts in part. So chunks that end together do
    not distort a short window.
    """
    done = 0.0
    for start, end in times.spans:
        inside = min(end, now) - max(start, since)
        done += max(0.0, inside) / duration_of((start, end))
    for start in times.claimed:
        done += max(0.0, now - max(start, since)) / max(mean, now - start)
    return done


def estimate(
    throughput: Throughput | None, left: int, elapsed: Sequence[float], running: int
) -> FinishTime | None:
    """Return the time until `left` chunks have ended; None: too little has happened.

    Args:
        throughput: How fast they end.
        left: The chunks that have not ended, running ones included.
        elapsed: The seconds since the claims of running chunks, or of some of them.
        running: The number of running chunks.
    """
    if throughput is None or throughput.rate <= 0:
        return None
    mean = mean_of(throughput.durations)
    slots = max(1, round(throughput.rate * mean), running)
    stretch = slots / (throughput.rate * mean)
    spread = math.sqrt(mean_of([(d - mean) ** 2 for d in throughput.durations])) / mean
    error = max(LEAST_ERROR, spread / math.sqrt(throughput.chunks))
    rng = Random(left)
    drawn = min(len(throughput.durations), MAX_DRAWN)
    simulated = min(left, MAX_SIMULATED)
    ends = []
    for _ in range(SIMULATIONS):
        durations = sorted(
            rng.choice(throughput.durations) * stretch for _ in range(drawn)
        )
        seconds = simulated_end(simulated, elapsed, durations, slots, rng)
        seconds += (left - simulated) / throughput.rate
        ends.append(seconds * math.exp(rng.gauss(0.0, error)))
    ends.sort()
    return FinishTime(ends[len(ends) // 2], ends[len(ends) * 9 // 10])


def simulated_end(
    left: int,
    elapsed: Sequence[float],
    durations: Sequence[float],
    slots: int,
    rng: Random,
) -> float:
    """Return when the last chunk ends in one simulation; `durations` are sorted."""
    free = [0.0] * slots
    for place in range(left):
        begin = heapq.heappop(free)
        takes = rng.choice(durations)
        if place < len(elapsed):
            ran = elapsed[place]
            longer = durations[bisect_right(durations, ran) :]
            takes = rng.choice(longer) - ran if longer else ran * OVERDUE_SHARE
        heapq.heappush(free, begin + takes)
    return max(free)


def duration_of(span: tuple[float, float]) -> float:
    """Return the seconds from the claim of a chunk to its end."""
    return max(span[1] - span[0], LEAST_S)


def mean_of(numbers: Sequence[float]) -> float:
    """Return the mean; the module `statistics` loads for longer than it computes."""
    return math.fsum(numbers) / len(numbers)
