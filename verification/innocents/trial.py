"""Forty chunks, seven of them guilty, and two workers that are restarted when they die.

The leases are short, so that the trial ends in minutes. Every other setting is the
default. The guilty chunks stand far apart, so that both workers meet them.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from piecework.domain.chunk import Chunk
from piecework.domain.chunk_input import ChunkInput
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.job import Job
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus
from piecework.runtime import Runtime, connect
from piecework.settings import load_settings
from piecework.store.completion import all_chunks
from piecework.store.dead_letters import DeadLetters
from piecework_orchestrator.submit.submit import Submission, submit
from tests.scenarios.guilty import guilty
from tests.scenarios.pipelines import Item

REF = JobRef("default", "trial")
CHUNKS, WORKERS, PATIENCE_S = 40, 2, 600.0
#: The guilty chunks, and what each does.
GUILTY = {
    2: "kill",
    8: "block",
    14: "interrupt in a task",
    20: "panic",
    26: "poison",
    30: "handles",
    34: "threads",
}
#: Chunks that end well, and leave their worker in disorder.
ODD = {36: "swallow", 37: "fork", 38: "ignore"}
TROUBLES = GUILTY | ODD
SHORT = {
    "PIECEWORK_LEASE_S": "5",
    "PIECEWORK_VISIBILITY_S": "6",
    "PIECEWORK_CLOCK_SKEW_S": "0.2",
    "PIECEWORK_RECONCILE_S": "0.5",
    "PIECEWORK_RECEIVE_WAIT_S": "1",
    "PIECEWORK_MAX_CHUNKS": "16",
}


@dataclass(frozen=True, slots=True)
class Figures:
    """The chunks after the trial, and the calls that the stages made.

    Attributes:
        asked: The number of calls for each chunk.
    """

    chunks: list[Chunk]
    dead: list[DeadLetterRow]
    asked: Counter[int]

    @property
    def facts(self) -> dict[str, int]:
        """Return the figures in the order of the last line.

        `lost`: chunks without an end. `harmed`: innocent chunks that made their call
        more often than once a claim, or spent an attempt too many.
        """
        dead = {row.chunk for row in self.dead}
        innocent = [chunk for chunk in self.chunks if chunk.ref.chunk not in GUILTY]
        return {
            "innocent_dead": len(dead - GUILTY.keys()),
            "guilty_dead": len(dead & GUILTY.keys()),
            "lost": CHUNKS - sum(chunk.status.ended for chunk in self.chunks),
            "harmed": sum(self.harmed(chunk) for chunk in innocent),
        }

    def harmed(self, chunk: Chunk) -> bool:
        """Return whether an innocent chunk paid for a neighbour."""
        claims = 1 + chunk.takeovers
        return chunk.attempts != 1 or self.asked[chunk.ref.chunk] > claims

    @property
    def kept(self) -> bool:
        """Whether each guilty chunk died, and no other chunk."""
        ended = Counter(chunk.status for chunk in self.chunks)
        fine = ended[ChunkStatus.SUCCEEDED] == CHUNKS - len(GUILTY)
        return fine and list(self.facts.values()) == [0, len(GUILTY), 0, 0]

    @property
    def letters(self) -> str:
        """Say which chunk died of what."""
        told = [f"{row.chunk}: {row.error_code}" for row in self.dead]
        return "; ".join(sorted(told))


async def trial(folder: Path) -> Figures:
    """Submit the job, keep two workers running, and wait for the job's end."""
    os.environ.update(SHORT)
    ledger = folder / "ledger"
    os.environ["SCENARIO_LEDGER"] = str(ledger)
    async with connect(load_settings()) as rt:
        await submit(rt, Submission(REF, guilty, "trial", "make innocents"), items())
        async with workers(folder / "workers.log"), asyncio.timeout(PATIENCE_S):
            await ended(rt)
        chunks = [chunk async for chunk in all_chunks(rt.table, REF, CHUNKS)]
        store = DeadLetters(rt.dead_letters, rt.settings, rt.clock)
        dead = [row async for row in store.of_job(REF)]
    lines = [line.split() for line in ledger.read_text().splitlines()]
    asked = Counter(int(line[1]) for line in lines if line[0] == "ask")
    return Figures(chunks, dead, asked)


async def ended(rt: Runtime) -> Job:
    """Return the job, once it has ended."""
    while True:
        job = await rt.jobs.read(REF)
        if job is not None and job.status.ended:
            return job
        await asyncio.sleep(0.2)


async def items() -> AsyncIterator[ChunkInput]:
    """Yield the chunks: an innocent one works until the guilty ones have struck."""
    for n in range(CHUNKS):
        item = Item(n=n, trouble=TROUBLES.get(n, ""), seconds=0.5 if n in GUILTY else 2)
        yield ChunkInput(f"chunk {n}", item.model_dump_json().encode())


@asynccontextmanager
async def workers(log: Path) -> AsyncIterator[None]:
    """Keep two worker processes running, as a platform does."""

    async def keep() -> None:
        while True:
            with log.open("ab") as output:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    *("-m", "piecework_worker"),
                    *("--pipelines", "tests.scenarios.guilty"),
                    stderr=output,
                )
            try:
                await process.wait()
            except asyncio.CancelledError:
                process.kill()
                await process.wait()
                raise

    keepers = [asyncio.create_task(keep()) for _ in range(WORKERS)]
    try:
        yield
    finally:
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)
