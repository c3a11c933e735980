"""When chunks come, and how long each takes: what a policy is tried on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

#: Seconds before the first chunk, so that alarms have a past.
BEFORE_S = 300


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk: when it is sent, and for how long a worker has it.

    Attributes:
        hidden_s: Seconds for which its message is hidden after that. Then it takes as
            long again: a retry that is far off. 0: it has ended.
    """

    at: float
    seconds: float
    hidden_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Case:
    """A name for the report, and its chunks in the order in which they come.

    Attributes:
        silent_s: Seconds after the first message without figures of the queue. No
            process had used it for six hours.
        hours: For how long it is watched at the least: what idles is paid for.
    """

    name: str
    chunks: tuple[Chunk, ...]
    silent_s: float = 0.0
    hours: float = 0.0


def burst(count: int, seconds: float, rng: Random, name: str = "") -> Case:
    """Return so many chunks at once."""
    times = [float(BEFORE_S)] * count
    return Case(name or f"burst of {count:,}", chunks(times, seconds, rng), hours=1)


def single(rng: Random) -> Case:
    """Return one job of 22 chunks, after a night without any."""
    found = chunks([float(BEFORE_S)] * 22, 60, rng)
    return Case("one job after a night", found, silent_s=900, hours=1)


def steady(a_minute: float, minutes: int, seconds: float, rng: Random) -> Case:
    """Return chunks that come at random, so many a minute on average."""
    times = list(poisson(BEFORE_S, BEFORE_S + 60 * minutes, a_minute / 60, rng))
    return Case(f"steady, {a_minute:g} a minute", chunks(times, seconds, rng))


def on_off(count: int, rounds: int, pause_s: float, rng: Random) -> Case:
    """Return bursts with pauses longer than it takes to fall asleep."""
    times = [BEFORE_S + r * pause_s for r in range(rounds) for _ in range(count)]
    name = f"{count} every {pause_s / 60:g} minutes"
    return Case(name, chunks(times, 60, rng), hours=rounds * pause_s / 3600)


def waves(rng: Random) -> Case:
    """Return two hours of work that rises and falls within each twenty minutes."""
    times: list[float] = []
    for minute in range(120):
        high = 10 <= minute % 20
        begin = BEFORE_S + 60 * minute
        times += poisson(begin, begin + 60, (150 if high else 20) / 60, rng)
    return Case("20 to 150 a minute, in waves", chunks(times, 60, rng))


def long_waits(rng: Random) -> Case:
    """Return chunks of which a tenth wait two hours for their retry."""
    found = chunks([float(BEFORE_S)] * 400, 60, rng)
    kept = [
        Chunk(c.at, c.seconds, 7200.0 if n % 10 == 0 else 0.0)
        for n, c in enumerate(found)
    ]
    return Case("a tenth waits 2 hours", tuple(kept), hours=3)


def chunks(times: list[float], seconds: float, rng: Random) -> tuple[Chunk, ...]:
    """Return chunks that take about so long: most less, some three times as long."""
    sigma = 0.5
    scale = seconds / 2.718281828 ** (sigma**2 / 2)
    return tuple(Chunk(at, scale * rng.lognormvariate(0, sigma)) for at in times)


def poisson(begin: float, end: float, rate: float, rng: Random) -> Iterator[float]:
    """Yield the times of events that know nothing of each other."""
    at = begin + rng.expovariate(rate)
    while at < end:
        yield at
        at += rng.expovariate(rate)
