"""A fleet in virtual time: the true attempts and limits, a stub for table and provider.

Each worker is what one process has: its own slots, limits and random numbers. They
share the record, which takes as long as DynamoDB to answer.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Any

from piecework import Dependency, TransientError, Usage
from piecework.calls.admission import Admission
from piecework.calls.attempts import Attempts
from piecework.calls.call import Call, CallScope
from piecework.calls.fleet_limits import FleetLimits
from piecework.resilience.limits import Quota, Reply
from piecework.resilience.retry import Answered, RetryTime
from piecework_worker.call_limiter import CallLimiter
from verification.flow.provider import Provider

SCOPE = CallScope("tenant", "job", 0, "stage", "flow")
#: Seconds of a write, as DynamoDB needs them, at most.
WRITE_S = 0.02


@dataclass(slots=True)
class MemoryQuotas:
    """Answers as the table does; `writes` counts the requests."""

    rng: Random = field(default_factory=lambda: Random(7))
    rows: dict[str, Quota] = field(default_factory=dict)
    writes: int = 0
    reads: int = 0

    async def read(self, name: str) -> Quota:
        """Read a quota."""
        self.reads += 1
        await asyncio.sleep(self.rng.uniform(WRITE_S / 4, WRITE_S))
        return self.rows.get(name, Quota())

    async def write(self, name: str, seen: int, quota: Quota) -> Reply:
        """Write a quota unless its `seq` is not the one that was seen."""
        self.writes += 1
        await asyncio.sleep(self.rng.uniform(WRITE_S / 8, WRITE_S / 2))
        stored = self.rows.get(name, Quota())
        ours = stored.seq == seen
        if ours:
            stored = self.rows[name] = quota
        await asyncio.sleep(self.rng.uniform(WRITE_S / 8, WRITE_S / 2))
        return Reply(stored, ours=ours)


class Silent:
    """A log that drops everything."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Return a method that does nothing."""
        del name
        return lambda *_, **__: None


@dataclass(slots=True)
class Fleet:
    """Workers that make calls for some seconds.

    Attributes:
        chunks: Calls of one worker that are made at once.
        calls: Calls in all; infinite: until the time is over.
        max_tokens: Limits the tokens of an answer; 0: calls have no tokens.
    """

    provider: Provider
    dependency: Dependency
    workers: int = 8
    chunks: int = 16
    calls: float = inf
    max_tokens: int = 0
    seed: int = 1
    record: MemoryQuotas = field(default_factory=MemoryQuotas)
    answered: int = 0
    ended_at: float = 0.0

    async def run(self, seconds: float) -> Fleet:
        """Make calls for so many seconds, or until all calls are answered."""
        rng = Random(self.seed)
        workers = [self.worker(Random(rng.random())) for _ in range(self.workers)]
        tasks = [
            asyncio.create_task(self.chunk(*worker))
            for worker in workers
            for _ in range(self.chunks)
        ]
        await asyncio.wait(tasks, timeout=seconds)
        self.ended_at = self.provider.now()
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for error in results:
            if isinstance(error, Exception):
                raise error
        return self

    def worker(self, rng: Random) -> tuple[Random, FleetLimits, CallLimiter]:
        """Return what the chunks of one worker share."""
        log: Any = Silent()
        limits = FleetLimits(
            self.provider.now, rng, log, self.record, f"w{rng.random()}"
        )
        return rng, limits, CallLimiter(64)

    async def chunk(self, rng: Random, limits: FleetLimits, slots: CallLimiter) -> None:
        """Make one call after the other."""
        log: Any = Silent()
        loop_time = asyncio.get_running_loop().time
        while self.calls > 0:
            self.calls -= 1
            attempts = Attempts(
                retry_time=RetryTime(600.0, max_delay=60.0),
                admission=Admission(
                    slots,
                    self.provider.now,
                    limits=limits,
                    latest_start=lambda: loop_time() + 300.0,
                ),
                rng=rng,
                clock=self.provider.now,
                log=log,
                enforce_retry_budget=False,
            )
            prompt, tokens_out = self.draw(rng)
            bound: functools.partial[Any] = functools.partial(
                self.answer, prompt, tokens_out, max_tokens=self.max_tokens
            )
            call = Call("key", SCOPE, self.dependency, bound, "digest")
            while not isinstance(await attempts.make(call, "key"), Answered):
                continue
            self.answered += 1

    def draw(self, rng: Random) -> tuple[str, int]:
        """Draw the prompt of a call and the tokens of its answer."""
        if not self.max_tokens:
            return "", 0
        characters = 4 * rng.randrange(200, 1_800)
        return "x" * characters, rng.randrange(self.max_tokens // 4, self.max_tokens)

    async def answer(
        self,
        prompt: str,
        tokens_out: int,
        *,
        max_tokens: int,
        idempotency_key: str = "",
    ) -> dict[str, int]:
        """Send one request to the provider.

        Raises:
            TransientError: The provider refused it with 429.
        """
        del max_tokens, idempotency_key
        used = Usage(len(prompt) // 4, tokens_out)
        if not self.provider.admits(used.tokens_in + used.tokens_out):
            await asyncio.sleep(self.provider.answer_s / 20)
            raise rate_limited(self.provider.retry_after)
        await self.provider.work()
        return {"tokens_in": used.tokens_in, "tokens_out": used.tokens_out}


def usage(answer: dict[str, int]) -> Usage:
    """Return what an answer cost."""
    return Usage(answer["tokens_in"], answer["tokens_out"])


def rate_limited(retry_after: float) -> TransientError:
    """Return the error of a refused request."""
    return TransientError(
        "too many requests", code="llm.http.429_rate_limited", retry_after=retry_after
    )
