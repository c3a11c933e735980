"""Let 10,000 chunks wait for a day: count requests, lateness, losses and repetitions.

The true worker and reconciler run on the model of AWS, in virtual time. Each chunk pays
for a call, waits, and pays for another one. Its moment is its own. All workers are
killed five times while every chunk waits. `make waits` fails above a limit.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel

from piecework import Context, Dependency, Pipeline, Stage
from piecework.domain.states import ChunkStatus
from tests.unit.orchestrator.simulated import Simulated, simulate

HOUR_S: Final = 3_600.0
DAY_S: Final = 24 * HOUR_S
#: The moments of the chunks are spread over this time.
SPREAD_S: Final = HOUR_S
#: Seconds in which every chunk has paid for its first call and waits.
STARTED_S: Final = 2 * HOUR_S
KILLS: Final = 5
LIMITS: Final[Mapping[str, float]] = {
    "requests_more_per_hour": 2_000.0,
    "woken_late_p99_s": 5.0,
    "lost": 0,
    "double": 0,
}
Figures = dict[str, float]

service = Dependency("service")
#: How often each call was executed.
executed: Counter[tuple[int, str]] = Counter()


class Wait(BaseModel):
    """The payload of a chunk: its number, and the moment for which it waits."""

    n: int
    until: float


@service.call
async def pay(number: int, when: str) -> int:
    """Count an execution."""
    executed[number, when] += 1
    return number


async def wait(ctx: Context[Wait]) -> float:
    """Pay, wait for a moment, pay again; return when the stage went on."""
    await pay(ctx.payload.n, "before")
    await ctx.sleep_until(ctx.payload.until)
    woken_at = ctx.caller.clock()
    await pay(ctx.payload.n, "after")
    return woken_at


waiting = Pipeline("waiting", payload=Wait, stages=[Stage(wait)])


def measure(chunks: int) -> Figures:
    """Return the figures of a job of so many chunks."""
    executed.clear()
    most, alone = run_of(chunks), run_of(1)
    return {
        **most,
        "requests_more_per_hour": most["requests_per_hour"]
        - alone["requests_per_hour"],
    }


def run_of(chunks: int) -> Figures:
    """Run a job of so many chunks that wait for a day."""

    async def act(here: Simulated) -> Figures:
        began = here.world.now()
        untils = [began + DAY_S + n * SPREAD_S / chunks for n in range(chunks)]
        executed.clear()
        await here.submit(waiting, [Wait(n=n, until=u) for n, u in enumerate(untils)])
        await asyncio.sleep(STARTED_S)
        before = here.world.requests
        await asyncio.sleep(HOUR_S)
        requests = here.world.requests - before
        asleep = sum(c.status is ChunkStatus.WAITING for c in await here.chunks())
        for _ in range(KILLS):
            for process in [*here.fleet.workers]:
                here.world.kill(process)
            await asyncio.sleep(HOUR_S)
        await asyncio.sleep(began + DAY_S + SPREAD_S - here.world.now())
        await here.ended()
        found = await here.chunks()
        ended = [c for c in found if c.status is ChunkStatus.SUCCEEDED]
        late = sorted(float(c.item["value"]) - untils[c.ref.chunk] for c in ended)
        return {
            "waiting": asleep,
            "requests_per_hour": requests,
            "woken_late_p99_s": round(late[int(0.99 * (len(late) - 1))], 3),
            "woken_late_max_s": round(late[-1], 3),
            "lost": chunks - len(ended),
            "double": sum(number > 1 for number in executed.values()),
        }

    return simulate(act, [waiting])


def main() -> int:
    """Print the figures; return 1 if one exceeds its limit."""
    parser = argparse.ArgumentParser(prog="verification.waits")
    parser.add_argument("--chunks", type=int, default=10_000)
    figures = measure(parser.parse_args().chunks)
    sys.stdout.write(" ".join(f"{name}={n:g}" for name, n in figures.items()) + "\n")
    exceeded = [name for name, limit in LIMITS.items() if figures[name] > limit]
    for name in exceeded:
        sys.stderr.write(f"{name}={figures[name]:g} exceeds {LIMITS[name]:g}\n")
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
