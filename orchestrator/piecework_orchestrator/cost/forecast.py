"""Forecast what the rest of a job uses, from the chunks of its sample; no I/O.

Each amount is a mean of the sample, times the chunks of the rest. If it follows the
size of the payloads, the known mean size of the rest corrects it. How much it may
differ comes from samples that are drawn from the sample again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from piecework.domain.call_usage import CallUsage
from piecework.explain.finish_time import (
    LEAST_ERROR,
    LEAST_S,
    MAX_SIMULATED,
    mean_of,
    simulated_end,
)
from piecework.resilience.lanes import PRICED_TIERS
from piecework.resilience.limits import Limits

#: Ended chunks of a sample below which the forecast says that it is rough.
FEW: Final = 10
#: P90 by P50 above which the forecast says that the chunks differ much.
WIDE: Final = 1.3
#: How often a sample is drawn again for amounts. And for times, which a simulation
#: yields.
DRAWS: Final = 400
SIMULATIONS: Final = 60
#: The size of the payloads corrects an amount if their correlation is at least this.
#: And the fewest chunks that show a correlation.
CORRELATED: Final = 0.6
SHOWS_SIZE: Final = 8
#: The seconds over which workers spread the quota of a minute; see `docs/limits.md`.
MINUTE_S: Final = 61.5
AMOUNTS: Final = ("calls", "tokens_in", "tokens_out")


@dataclass(frozen=True, slots=True)
class Sampled:
    """An ended chunk of a sample.

    Attributes:
        size: Bytes of its payload.
        usage: What its calls used.
        usd: What its calls cost, as far as prices are known.
        seconds: The time that it kept a slot of a worker, in all its claims.
        failed: Whether it became a dead letter.
    """

    size: int
    usage: CallUsage
    usd: float
    seconds: float
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Rest:
    """The chunks that are not in the sample: their number, and bytes of payloads."""

    chunks: int
    mean_size: float
    largest: int = 0


@dataclass(frozen=True, slots=True)
class Fleet:
    """What decides how fast the rest goes.

    Attributes:
        workers: Those that run the pipeline now.
        slots: The chunks that they run at once; 0: no worker reports.
        at_once: The most chunks of the sample that ran at the same time.
        limits: The limits in force, by dependency.
    """

    workers: int
    slots: int
    at_once: int
    limits: Mapping[str, Limits] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Range:
    """An amount that is exceeded in half, and in a tenth of cases."""

    p50: float
    p90: float

    def document(self, digits: int | None = None) -> dict[str, float]:
        """Return both, rounded."""
        return {"p50": round(self.p50, digits), "p90": round(self.p90, digits)}


def forecast_amount(
    sample: Sequence[Sampled], rest: Rest, amount: Callable[[Sampled], float]
) -> Range:
    """Return what all chunks of the rest use of an amount."""
    pairs = [(chunk.size, amount(chunk)) for chunk in sample]
    by_size = follows_size(pairs)
    middle = rest.chunks * mean_at(pairs, rest.mean_size, by_size=by_size)
    rng = Random(len(pairs))  # the same sample has the same forecast
    drawn = sorted(
        rest.chunks
        * mean_at(rng.choices(pairs, k=len(pairs)), rest.mean_size, by_size=by_size)
        for _ in range(DRAWS)
    )
    above = max(0.0, drawn[DRAWS * 9 // 10] - middle) * widening(len(pairs), rest)
    return Range(middle, middle + above)


def widening(sampled: int, rest: Rest) -> float:
    """Return how much wider a forecast is than what a redrawn sample shows.

    A small sample understates its spread, and a small rest has a spread of its own.
    """
    small = sampled / max(1, sampled - 1)
    return math.sqrt(small * (1 + sampled / max(1, rest.chunks)))


def follows_size(pairs: Sequence[tuple[float, float]]) -> bool:
    """Return whether an amount follows the size of the payloads."""
    if len(pairs) < SHOWS_SIZE:
        return False
    sizes, amounts = zip(*pairs, strict=True)
    spread = covariance(sizes, sizes) * covariance(amounts, amounts)
    return spread > 0 and covariance(sizes, amounts) / math.sqrt(spread) >= CORRELATED


def mean_at(
    pairs: Sequence[tuple[float, float]], size: float, *, by_size: bool
) -> float:
    """Return the mean amount of chunks of a mean size; it is never negative."""
    sizes, amounts = zip(*pairs, strict=True)
    mean, spread = mean_of(amounts), covariance(sizes, sizes)
    if not by_size or spread <= 0:
        return mean
    slope = covariance(sizes, amounts) / spread
    return max(0.0, mean + slope * (size - mean_of(sizes)))


def covariance(left: Sequence[float], right: Sequence[float]) -> float:
    """Return the covariance of two rows of numbers."""
    a, b = mean_of(left), mean_of(right)
    return mean_of([(x - a) * (y - b) for x, y in zip(left, right, strict=True)])


# ── the time ──────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit of a dependency: what a chunk uses of it, and what a minute allows."""

    dependency: str
    amount: Callable[[Sampled], float]
    per_minute: float


def forecast_seconds(
    sample: Sequence[Sampled], rest: Rest, fleet: Fleet
) -> tuple[Range, str]:
    """Return the time of the rest, and what limits it.

    That is a dependency, or `workers`.
    """
    bounds = bounds_of(sample, fleet.limits)
    slots = slots_of(sample, fleet)
    pairs = [(chunk.size, max(LEAST_S, chunk.seconds)) for chunk in sample]
    by_size = follows_size(pairs)
    longer = mean_at(pairs, rest.mean_size, by_size=by_size)
    longest = mean_at(pairs, rest.largest, by_size=by_size)
    stretch = longer / mean_of([seconds for _, seconds in pairs])
    rng, times, limited = Random(len(pairs)), [], 0
    for _ in range(SIMULATIONS):
        drawn = rng.choices(sample, k=len(sample))
        durations = sorted(max(LEAST_S, c.seconds) * stretch for c in drawn)
        played = min(rest.chunks, MAX_SIMULATED)
        by_slots = (rest.chunks - played) * mean_of(durations) / slots
        by_slots += simulated_end(played, [], durations, slots, rng)
        # The largest chunk may start at any time, and is hardly in the sample.
        by_slots = max(by_slots, rng.random() * by_slots + longest)
        by_limits = max((seconds_of(bound, drawn, rest) for bound in bounds), default=0)
        limited += by_limits > by_slots
        error = math.exp(rng.gauss(0.0, LEAST_ERROR))
        times.append(max(by_slots, by_limits) * error)
    times.sort()
    found = Range(times[SIMULATIONS // 2], times[SIMULATIONS * 9 // 10])
    slowest = max(
        bounds, key=lambda bound: seconds_of(bound, sample, rest), default=None
    )
    by_limit = slowest is not None and limited > SIMULATIONS / 2
    return found, slowest.dependency if slowest and by_limit else "workers"


def slots_of(sample: Sequence[Sampled], fleet: Fleet) -> int:
    """Return how many chunks run at once, as far as is known.

    A limit of calls in flight limits the chunks, too: each has at least one call unless
    it waits. More chunks than the limit run at once if some of them wait, as in the
    sample.
    """
    ran = max(1, fleet.at_once)
    known = fleet.slots or ran
    used = models_by_dependency(sample, fleet.limits)
    most = [
        max(limits.concurrent, ran)
        for name, limits in fleet.limits.items()
        if limits.concurrent and used.get(name)
    ]
    return max(1, min([known, *most]))


def seconds_of(bound: Bound, sample: Sequence[Sampled], rest: Rest) -> float:
    """Return the seconds that a limit needs for the rest."""
    each = mean_of([bound.amount(chunk) for chunk in sample])
    return rest.chunks * each * MINUTE_S / bound.per_minute


def bounds_of(sample: Sequence[Sampled], limits: Mapping[str, Limits]) -> list[Bound]:
    """Return the limits that the chunks of a sample use."""
    found = []
    for name, models in models_by_dependency(sample, limits).items():
        limit = limits[name]
        for names, most in (
            (("calls",), limit.requests_a_minute),
            (("tokens_in", "tokens_out"), limit.tokens_per_minute),
        ):
            if most and models:
                found.append(Bound(name, amount_of(models, names), most))
    return found


def models_by_dependency(
    sample: Sequence[Sampled], limits: Mapping[str, Limits]
) -> dict[str, frozenset[str]]:
    """Return the models in the usage that belong to each limited dependency.

    A usage has the name of a model, or of the dependency without one. A usage without
    such a name belongs to the only limited dependency that has no usage by its name.
    """
    models = frozenset(m for chunk in sample for m in chunk.usage.models("paid"))
    found = {name: models & {name, *names_of_tiers(name)} for name in limits}
    unnamed = [name for name, its in found.items() if not its]
    if len(unnamed) == 1:
        found[unnamed[0]] = models - limits.keys()
    return found


def names_of_tiers(model: str) -> list[str]:
    """Return the names that a usage has for the tiers of a model."""
    return [f"{model} {tier}" for tier in PRICED_TIERS]


def amount_of(
    models: frozenset[str], names: Sequence[str]
) -> Callable[[Sampled], float]:
    """Return the function of what a chunk used of some models."""

    def amount(chunk: Sampled) -> float:
        paid = chunk.usage.models("paid")
        return math.fsum(paid[m][name] for m in models & paid.keys() for name in names)

    return amount


def remarks(
    sampled: int, wanted: int, ranges: Sequence[Range], workers: int
) -> list[str]:
    """Return why a forecast may be wrong."""
    notes = []
    if sampled < FEW:
        noun = "chunk has" if sampled == 1 else "chunks have"
        notes.append(f"rough: it is of few data, only {sampled} {noun} ended")
    if sampled < wanted:
        notes.append(f"{wanted - sampled} chunks of the sample have not ended yet")
    if any(each.p90 > WIDE * each.p50 > 0 for each in ranges):
        notes.append("the chunks differ much; a larger sample forecasts better")
    if not workers:
        notes.append(
            "no worker reports: the time is that of the workers that ran the sample"
        )
    return notes
