"""How a fleet uses its quota, in virtual time: the true attempts and limits.

The table and the provider are stubs. The provider keeps the book that is counted here;
the workers' own figures are not asked.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, Final

from piecework import Dependency, Limits, RetryPolicy
from tests.unit.virtual import run_virtually
from verification.flow.fleet import Fleet, usage
from verification.flow.provider import Provider

PATIENT: Final = RetryPolicy(attempts=10, retry_time=600.0)
MODEL: Final = Dependency(
    "model", layer="llm", retry=PATIENT, usage=usage, adaptive_rate=True
)
REQUESTS, TOKENS = 600, 200_000
#: The example with 10 calls a second: its calls, its workers, and its ideal seconds.
#: The seconds include the last answer.
EXAMPLE_CALLS, EXAMPLE_WORKERS, EXAMPLE_IDEAL_S = 400, 2, 40.0
#: Seconds over which a rate is judged, and when the limit changes.
WINDOW_S, CHANGE_S, MOST_SETTLE_S = 10, 120, 120


@dataclass(frozen=True, slots=True)
class FlowRun:
    """A fleet and its provider after a run of so many seconds."""

    fleet: Fleet
    began: float
    seconds: float

    def part(self, begin: float, end: float) -> tuple[float, float]:
        """Return the times of two shares of the run."""
        return self.began + begin * self.seconds, self.began + end * self.seconds

    def unused_percent(self, quota: float, *, of_tokens: bool = False) -> float:
        """Return the unused part of a quota, between 10 % and 90 % of a run."""
        begin, end = self.part(0.1, 0.9)
        book = self.fleet.provider.book
        used = (book.tokens_between if of_tokens else book.requests_between)(begin, end)
        return 100 * (1 - used / (quota * (end - begin) / 60))


def virtual_clock() -> float:
    """Return the time of the loop as seconds since 1970."""
    return 1.7e9 + asyncio.get_running_loop().time()


def run(
    dependency: Dependency,
    seconds: float,
    act: Callable[[Fleet], Coroutine[Any, Any, None]] | None = None,
    *,
    provider: dict[str, Any],
    **fleet: Any,
) -> FlowRun:
    """Run a fleet until its calls are answered, or for so many seconds."""

    async def main() -> FlowRun:
        began = virtual_clock()
        made = Fleet(Provider(virtual_clock, **provider), dependency, **fleet)
        acting = None if act is None else asyncio.create_task(act(made))
        await made.run(seconds)
        if acting is not None:
            await acting
        return FlowRun(made, began, made.ended_at - began)

    return run_virtually(main())


@functools.cache
def limited() -> FlowRun:
    """Run 8 workers for five minutes under 600 requests a minute."""
    model = replace(MODEL, limits=Limits(requests_per_minute=REQUESTS))
    return run(model, 300.0, provider={"requests": REQUESTS, "window_s": 60.0})


@functools.cache
def limited_by_tokens() -> FlowRun:
    """Run 8 workers for ten minutes under 200,000 tokens a minute."""
    model = replace(MODEL, limits=Limits(tokens_per_minute=TOKENS))
    provider = {"tokens": TOKENS, "window_s": 60.0}
    return run(model, 600.0, provider=provider, max_tokens=800)


@functools.cache
def adaptive() -> FlowRun:
    """Run 8 workers for eleven minutes against a provider of 10 a second."""
    return run(MODEL, 660.0, provider={"requests": 10})


def calls_in_a_minute() -> float:
    """Return the most requests that the provider admitted in any 60 seconds."""
    return limited().fleet.provider.book.in_any_minute()


def requests_unused_percent() -> float:
    """Return the unused part of the requests."""
    return limited().unused_percent(REQUESTS)


def tokens_unused_percent() -> float:
    """Return the unused part of the tokens."""
    return limited_by_tokens().unused_percent(TOKENS, of_tokens=True)


def refusals_declared_percent() -> float:
    """Return the refusals for each 100 answered calls under declared limits."""
    fleets = [limited().fleet, limited_by_tokens().fleet, example(declared=True).fleet]
    refused = sum(len(fleet.provider.book.refused) for fleet in fleets)
    return 100 * refused / sum(fleet.answered for fleet in fleets)


def refusals_adaptive_percent() -> float:
    """Return the refusals for each 100 admitted calls, after the first minute."""
    found = adaptive()
    begin, end = found.began + 60, found.began + found.seconds
    book = found.fleet.provider.book
    admitted = book.requests_between(begin, end)
    return 100 * book.refused_between(begin, end) / admitted


def adaptive_unused_percent() -> float:
    """Return the unused part of the quota without a declared limit, after a minute."""
    found = adaptive()
    begin, end = found.began + 60, found.began + found.seconds
    used = found.fleet.provider.book.requests_between(begin, end)
    return 100 * (1 - used / (10 * (end - begin)))


def writes_a_second_and_worker() -> float:
    """Return the writes of a worker in a second while its calls wait."""
    found = limited()
    return found.fleet.record.writes / found.seconds / found.fleet.workers


def requests_without_limits() -> float:
    """Return the requests to the table of a fleet without limits."""
    found = run(MODEL, 60.0, provider={}, calls=1_000)
    return found.fleet.record.writes + found.fleet.record.reads


@functools.cache
def example(*, declared: bool) -> FlowRun:
    """Run 400 calls of a second through two workers, 10 a second are allowed."""
    limits = Limits(requests_per_minute=REQUESTS) if declared else None
    return run(
        replace(MODEL, limits=limits),
        1_000.0,
        provider={"requests": 10},
        calls=EXAMPLE_CALLS,
        workers=EXAMPLE_WORKERS,
    )


def example_by_ideal() -> float:
    """Return the makespan of the example with its limit declared, by the ideal one."""
    return example(declared=True).seconds / EXAMPLE_IDEAL_S


# ── time to settle after a change ─────────────────────────────────────────────


def settle_s(*, adapts: bool) -> float:
    """Return the longest time to settle after a limit halves, and after it doubles."""
    return max(settle_after(REQUESTS // 2, adapts), settle_after(REQUESTS * 2, adapts))


def settle_after(new: int, adapts: bool) -> float:  # noqa: FBT001 -- as its caller
    """Return the seconds until the fleet keeps to a limit that has changed.

    It does so in the first ten seconds that use 80 to 105 % of the new limit. The
    provider may refuse at most 5 % of these calls.
    """

    async def change(fleet: Fleet) -> None:
        await asyncio.sleep(CHANGE_S)
        fleet.provider.requests = new // 60
        if not adapts:
            stored = fleet.record.rows[MODEL.name]
            operator = Limits(requests_per_minute=new)
            fleet.record.rows[MODEL.name] = replace(stored, operator=operator)

    limits = None if adapts else Limits(requests_per_minute=REQUESTS)
    found = run(
        replace(MODEL, limits=limits),
        CHANGE_S + MOST_SETTLE_S + WINDOW_S,
        change,
        provider={"requests": 10},
        chunks=32,
    )
    book, changed = found.fleet.provider.book, found.began + CHANGE_S
    quota = new / 60 * WINDOW_S
    for seconds in range(MOST_SETTLE_S):
        window = changed + seconds, changed + seconds + WINDOW_S
        made, refused = book.requests_between(*window), book.refused_between(*window)
        if 0.8 * quota <= made <= 1.05 * quota and refused <= 0.05 * made:
            return seconds
    return MOST_SETTLE_S


def settle_declared_s() -> float:
    """Return the time to settle after an operator has changed a limit."""
    return settle_s(adapts=False)


def settle_adaptive_s() -> float:
    """Return the time to settle after the provider has changed its limit."""
    return settle_s(adapts=True)
