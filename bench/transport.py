"""Measure the CPU of a request: through the SDK, and through the thin transport.

python -m bench.transport [--n 2000]

Both send the same conditional writes to one emulator, in turns, from one process. The
figure is that process's CPU time. The lowest turn is the least disturbed by other
processes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from piecework.runtime import Runtime, connect
from piecework.settings import Settings
from piecework_orchestrator.embedded import down, up

TURNS = 7
IN_FLIGHT = 32
APP, ENV = "bench", "wire"


def main() -> int:
    """Measure, and print a line for each operation."""
    parser = argparse.ArgumentParser(prog="python -m bench.transport")
    parser.add_argument("--n", type=int, default=2_000, help="requests of each kind")
    asked = parser.parse_args()
    with TemporaryDirectory() as made:
        folder = Path(made)
        os.environ["PIECEWORK_STATE_DIR"] = made
        up(APP, ENV, folder)
        try:
            asyncio.run(measure(asked.n))
        finally:
            down(folder)
    return 0


async def measure(n: int) -> None:
    """Print microseconds of CPU a request, by operation and path."""
    async with AsyncExitStack() as stack:
        paths = {}
        for wire in ("sdk", "thin"):
            settings = Settings(
                app=APP, env=ENV, max_chunks=IN_FLIGHT, aws_transport=wire
            )
            paths[wire] = await stack.enter_async_context(connect(settings))
        for name, operation in OPERATIONS.items():
            found: dict[str, list[float]] = {wire: [] for wire in paths}
            for turn in range(TURNS):
                for wire, runtime in paths.items():
                    spent = await cpu_us(operation, runtime, n // TURNS)
                    if turn:  # the first one opens the connections
                        found[wire].append(spent)
            line = "  ".join(
                f"{wire} {min(spent):6.0f} least {median(spent):6.0f} median"
                for wire, spent in found.items()
            )
            ratio = min(found["thin"]) / min(found["sdk"])
            sys.stdout.write(f"{name:22} us CPU: {line}  thin/sdk={ratio:.2f}\n")


async def cpu_us(
    operation: Callable[[Runtime, int], Awaitable[object]], runtime: Runtime, n: int
) -> float:
    """Return this process's CPU microseconds per request."""
    numbers = iter(range(n))

    async def ask() -> None:
        for number in numbers:
            await operation(runtime, number)

    began = time.process_time()
    await asyncio.gather(*(ask() for _ in range(IN_FLIGHT)))
    return (time.process_time() - began) / n * 1e6


async def update(runtime: Runtime, number: int) -> object:
    """Write on a condition, as much as a claim does."""
    table = runtime.table
    action = table.item_write(
        "Update",
        "T#default#J#bench",
        f"CHUNK#{number % 64:08}",
        condition="attribute_not_exists(#status) OR #status = :running",
        update="SET #status = :running, claim_token = :token, claimed_by = :worker, "
        "claim_expires_at = :until ADD fence :one",
        values={
            "running": "RUNNING",
            "token": "0123456789abcdef0123456789abcdef",
            "worker": "worker-0123456789",
            "until": "2026-01-01T00:00:00.000Z",
            "one": 1,
        },
    )
    return await table.update(action)


async def receive(runtime: Runtime, _: int) -> object:
    """Receive from an empty queue."""
    return await runtime.work.receive(10, of="", wait_s=0, hide_s=30)


OPERATIONS = {"UpdateItem": update, "ReceiveMessage": receive}

if __name__ == "__main__":
    sys.exit(main())
