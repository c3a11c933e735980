"""A thousand clients and an outage, in virtual time: do their retries make a storm?

Attempts, retries, breakers and budgets are the true ones. Only the chunk is left out: a
deferral is a wait here. Each client is a process of its own. All share one record.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from piecework.calls.admission import Admission
from piecework.calls.attempts import Attempts
from piecework.calls.call import Call, CallScope
from piecework.calls.fleet_breaker import BreakerRegistry
from piecework.dependency import Dependency
from piecework.errors import TransientError
from piecework.resilience.retry import Answered, RetryTime, blocked_on
from piecework.saga import recovery
from tests.unit.piecework.fleet_record import MemoryRecord
from tests.unit.virtual import run_virtually

#: Seconds from one call of a client to its next, on average, and of an answer.
THINK_S = 4.0
ANSWER_S = 1.0
#: The first limit is the busiest second by the mean of the calm ones. The others are
#: calls made for each one needed, while one in twenty fails, or one in five.
MOST_PEAK, MOST_AT_5, MOST_AT_20 = 3.0, 1.3, 2.0
SCOPE = CallScope("tenant", "job", 0, "stage", "storm")


@dataclass(frozen=True, slots=True)
class Weather:
    """What the calls meet: an outage, if any, and the share that fails anyway."""

    clients: int = 1000
    seconds: float = 300.0
    down_from: float = 100.0
    down_to: float = 100.0
    fails: float = 0.0


@dataclass(slots=True)
class Storm:
    """One run.

    Attributes:
        made: Calls that were made, by the second.
        needed: Calls that had to be made once.
    """

    weather: Weather
    seed: int = 1
    made: Counter[int] = field(default_factory=Counter)
    needed: int = 0
    answered: int = 0
    deferrals: int = 0
    claims: int = 0
    began: float = 0.0

    def now(self) -> float:
        """Return the seconds since the beginning."""
        return asyncio.get_running_loop().time() - self.began

    async def run(self) -> Storm:
        """Let all clients call for as long as the weather lasts, and finish."""
        self.began = asyncio.get_running_loop().time()
        record = MemoryRecord(self.now)
        rng = Random(self.seed)
        clients = (
            self.client(Random(rng.getrandbits(64)), record)
            for _ in range(self.weather.clients)
        )
        await asyncio.gather(*clients)
        return self

    async def client(self, rng: Random, record: MemoryRecord) -> None:
        """Make one call after the other."""
        silent: Any = Silent()
        breakers = BreakerRegistry(self.now, rng, silent, record)
        attempts = Attempts(
            retry_time=RetryTime(),
            admission=Admission(asyncio.Semaphore(1), self.now, breakers=breakers),
            rng=rng,
            clock=self.now,
            log=silent,
        )
        bound = functools.partial(self.provide, rng)
        call = Call("key", SCOPE, Dependency("provider"), bound, "digest")
        await asyncio.sleep(rng.uniform(0, 2 * THINK_S))
        while self.now() < self.weather.seconds:
            self.needed += 1
            await self.finish(attempts, call, breakers)
            await asyncio.sleep(rng.uniform(0, 2 * THINK_S))

    async def finish(
        self, attempts: Attempts, call: Call, breakers: BreakerRegistry
    ) -> None:
        """Make a call until it is answered, each time with a claim's own budget."""
        deferrals = 0
        while True:
            attempts.retry_time = RetryTime(60.0, max_delay=34.0)
            # While a chunk waits, its worker runs another one.
            self.claims += 1
            claimed = replace(call, scope=replace(SCOPE, chunk=self.claims))
            wait = await self.attempt(attempts, claimed, deferrals)
            if breakers.has_pending_writes:
                await breakers.sync()
            if wait is None:
                return
            deferrals += 1
            self.deferrals += 1
            await asyncio.sleep(wait)

    async def attempt(
        self, attempts: Attempts, call: Call, deferrals: int
    ) -> float | None:
        """Make the attempts of a call; return the seconds for which its chunk waits."""
        end, rng = await attempts.make(call, "key"), attempts.rng
        if isinstance(end, Answered):
            self.answered += 1
            return None
        if blocked_on(end.envelope):
            return recovery.deferral_delay(end.envelope, 1, deferrals, rng)
        return recovery.backoff(end.envelope, 1 + deferrals, rng)

    async def provide(self, rng: Random, *, idempotency_key: str) -> None:
        """Answer a call."""
        del idempotency_key
        now = self.now()
        self.made[int(now)] += 1
        if self.weather.down_from <= now < self.weather.down_to:
            await asyncio.sleep(0.05)
            raise TransientError("down", code="tool.http.503_unavailable")
        await asyncio.sleep(rng.uniform(0, 2 * ANSWER_S))
        if rng.random() < self.weather.fails:
            raise TransientError("failed", code="tool.http.503_unavailable")

    @property
    def amplification(self) -> float:
        """Calls made for each that was needed."""
        return self.made.total() / self.needed

    @property
    def peak(self) -> float:
        """The busiest second's calls, by the average of the calm ones before."""
        first = 2 * round(THINK_S + ANSWER_S)
        calm = [self.made[s] for s in range(first, int(self.weather.down_from))]
        return max(self.made.values()) / (sum(calm) / len(calm))


class Silent:
    """A logger that drops every event."""

    def debug(self, *_: Any, **__: Any) -> None:
        """Say nothing."""

    info = warning = error = debug


def storm(weather: Weather, seed: int = 1) -> Storm:
    """Run a storm in virtual time."""
    return run_virtually(Storm(weather, seed).run())


OUTAGE = Weather(seconds=180.0, down_from=40.0, down_to=100.0)
FIVE = Weather(seconds=120.0, fails=0.05)
TWENTY = Weather(seconds=120.0, fails=0.2)


def main() -> None:
    """Print what a thousand clients did, and end with 1 where it was too much."""
    outage, five, twenty = (storm(weather) for weather in (OUTAGE, FIVE, TWENTY))
    complete = all(one.answered == one.needed for one in (outage, five, twenty))
    facts = {
        "clients": OUTAGE.clients,
        "outage_s": round(OUTAGE.down_to - OUTAGE.down_from),
        "peak_to_mean": round(outage.peak, 2),
        "amplification_at_5_percent": round(five.amplification, 3),
        "amplification_at_20_percent": round(twenty.amplification, 3),
        "deferrals": outage.deferrals,
        "complete": complete,
    }
    sys.stdout.write(" ".join(f"{name}={value}" for name, value in facts.items()))
    sys.stdout.write("\n")
    kept = outage.peak <= MOST_PEAK and twenty.amplification <= MOST_AT_20
    sys.exit(not (complete and kept and five.amplification <= MOST_AT_5))


if __name__ == "__main__":
    main()
