"""An outage under the true workers: 30 s without a provider, 64 calls in flight."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import structlog
from pydantic import BaseModel

from piecework import (
    CircuitBreaker,
    Context,
    Dependency,
    Pipeline,
    Stage,
    TransientError,
    named_call,
)
from piecework.domain.chunk import Chunk
from piecework.domain.chunk_input import ChunkInput
from piecework.domain.job import Job
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.runtime import Runtime, connect
from piecework.settings import load_settings
from piecework.store.completion import all_chunks
from piecework_orchestrator.submit.submit import Submission, submit
from piecework_worker.process import serve
from piecework_worker.services import open_services
from piecework_worker.worker import Worker

REF = JobRef("default", "drill")
#: Seconds of an answer, before the outage, and of it; then until all must be over.
ANSWER_S, BEFORE_S, DOWN_S, PATIENCE_S = 0.5, 5.0, 30.0, 105.0
#: As workers have them, whatever this machine's tests are used to.
DEFAULTS = {"lease_s": 18.0, "visibility_s": 90.0, "clock_skew_s": 5.0}
#: Chunks, the calls of each, and how many of those at once.
CHUNKS, CALLS, AT_ONCE = 32, 60, 2


@dataclass(slots=True)
class Provider:
    """The stub of a provider: it answers, unless it is down."""

    began: float = 0.0
    made: Counter[int] = field(default_factory=Counter)
    answered: Counter[int] = field(default_factory=Counter)
    most: int = 0
    in_flight: int = 0

    def now(self) -> float:
        """Return the seconds since the first call."""
        now = asyncio.get_running_loop().time()
        self.began = self.began or now
        return now - self.began

    @property
    def is_down(self) -> bool:
        """Whether it is the time of the outage."""
        return BEFORE_S <= self.now() < BEFORE_S + DOWN_S

    async def answer(self, n: int, *, idempotency_key: str) -> int:
        """Answer a call."""
        del idempotency_key
        self.made[int(self.now())] += 1
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            await asyncio.sleep(ANSWER_S)
        finally:
            self.in_flight -= 1
        if self.is_down:
            raise TransientError("down", code="llm.http.503_unavailable")
        self.answered[int(self.now())] += 1
        return n


PROVIDER = Provider()
answer = named_call("answer")(PROVIDER.answer)
model = Dependency(
    "model", layer="llm", breaker=CircuitBreaker(open_s=8.0, max_open_s=15.0)
)


class Item(BaseModel):
    """A chunk."""

    n: int


async def ask(ctx: Context[Item]) -> int:
    """Make the chunk's calls, two at a time."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(call: int) -> int:
        async with gate:
            return await ctx.call(model, answer, ctx.chunk * CALLS + call)

    return len(await asyncio.gather(*map(one, range(CALLS))))


asking = Pipeline(name="asking", payload=Item, stages=[Stage(ask)])


@dataclass(frozen=True, slots=True)
class Figures:
    """The result of the drill."""

    provider: Provider
    chunks: list[Chunk]
    status: JobStatus

    @property
    def recover_s(self) -> int:
        """Seconds from the outage's end until as many are answered as half before."""
        fair = range(1, int(BEFORE_S))
        half = sum(self.provider.answered[s] for s in fair) / len(fair) / 2
        over = int(BEFORE_S + DOWN_S)
        back = (s for s in range(over, 600) if self.provider.answered[s] >= half)
        return next(back, 600) - over

    @property
    def facts(self) -> dict[str, object]:
        """Return the figures in the order of the last line."""
        made = self.provider.made
        mean = made.total() / (max(made) + 1)
        return {
            "calls_in_flight": self.provider.most,
            "calls_made": made.total(),
            "amplification": round(made.total() / (CHUNKS * CALLS), 3),
            "peak_to_mean": round(max(made.values()) / mean, 2),
            "chunks_deferred": sum("deferrals" in chunk.item for chunk in self.chunks),
            "deferrals": sum(
                int(chunk.item.get("deferrals", 0)) for chunk in self.chunks
            ),
            "attempts_spent": sum(chunk.attempts - 1 for chunk in self.chunks),
            "recover_s": self.recover_s,
            "jobs_complete": int(self.status is JobStatus.SUCCEEDED),
        }

    @property
    def kept(self) -> bool:
        """Whether the outage cost no chunk anything."""
        spent = any(chunk.attempts > 1 for chunk in self.chunks)
        return self.status is JobStatus.SUCCEEDED and not spent


async def drill() -> Figures:
    """Submit a job to two workers, take its provider away, and wait for its end."""
    settings = load_settings(**DEFAULTS, max_chunks=16, max_calls_in_flight=32)
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(connect(settings)) for _ in "12"]
        rt = workers[0]
        await submit(rt, Submission(REF, asking, "drill", "make outage"), items())
        for number, each in enumerate(workers, 1):
            await stack.enter_async_context(worker(each, f"w{number}"))
        async with asyncio.timeout(PATIENCE_S):
            job = await ended(rt)
        chunks = [chunk async for chunk in all_chunks(rt.table, REF, CHUNKS)]
        return Figures(PROVIDER, chunks, job.status)


async def ended(rt: Runtime) -> Job:
    """Return the job, once it has ended."""
    while True:
        job = await rt.jobs.read(REF)
        if job is not None and job.status.ended:
            return job
        await asyncio.sleep(0.5)


async def items() -> AsyncIterator[ChunkInput]:
    """Yield the chunks."""
    for n in range(CHUNKS):
        yield ChunkInput(f"chunk {n}", Item(n=n).model_dump_json().encode())


@asynccontextmanager
async def worker(rt: Runtime, name: str) -> AsyncIterator[None]:
    """Run a worker with breakers of its own, and a reconciler beside it."""
    stop = asyncio.Event()
    services = open_services(rt, name, {asking.name: asking}, structlog.get_logger())
    running = asyncio.create_task(serve(Worker(services, stop), reconcile=True))
    try:
        yield
    finally:
        stop.set()
        await running
