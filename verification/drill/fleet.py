"""A fleet in virtual time that an exercise stops in one way or another.

The workers, the submit, the record and the explanation are the real code. AWS is the
simulator's model without faults. The payload of a chunk says what its stage does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from piecework import (
    CircuitBreaker,
    Context,
    Dependency,
    Effect,
    Limits,
    PermanentError,
    Pipeline,
    Stage,
    TransientError,
)
from piecework.context import Results
from piecework.domain.claim import Claim
from piecework.domain.job import Job
from piecework.domain.outcome import Deferred
from piecework.domain.refs import JobRef
from piecework.errors import ErrorEnvelope
from piecework.resilience.lanes import NO_ROOM_CODE, Lane
from piecework.resilience.retry import RetryPolicy
from piecework.runtime import Runtime
from piecework.settings import Settings
from piecework.store.claims import Claims
from piecework.store.settlements import Calls, Settlements
from piecework_orchestrator.reading.job_documents import Document, explain
from piecework_simulation.driver.processes import FleetDriver
from piecework_simulation.engine.faults import Faults
from piecework_simulation.engine.leftovers import leftovers_discarded
from piecework_simulation.engine.process import Process
from piecework_simulation.engine.runtimes import open_runtime
from piecework_simulation.engine.sandbox import Log
from piecework_simulation.engine.world import World
from piecework_worker.process import serve
from piecework_worker.report import report_until
from piecework_worker.services import open_services
from piecework_worker.worker import Worker

T = TypeVar("T")

REF: Final = JobRef("default", "drill")
#: The code version of operators, and of workers without another one.
VERSION: Final = "v1"
OTHER: Final = JobRef("default", "other")
#: Seconds that a slow stage takes, and that a failed chunk waits.
SLOW_S, RETRY_S = 800.0, 900.0


class Order(BaseModel):
    """A chunk; `how`: what its stage does."""

    n: int
    how: str = "quick"


bank = Dependency(
    "bank",
    breaker=CircuitBreaker(minimum_calls=2, open_s=800.0, max_open_s=800.0),
    retry=RetryPolicy(attempts=1),
)
model = Dependency("model", limits=Limits(requests_per_minute=1))

mini = Dependency("mini", layer="llm", lane=Lane.flex())
fax = Dependency("fax", effect=Effect.NON_IDEMPOTENT, timeout=1.0)


@bank.call
async def transfer(n: int) -> int:
    """Fail, as a service that is down."""
    raise TransientError(f"The bank is down for {n}.", code="tool.http.503_unavailable")


@model.call
async def ask(n: int) -> int:
    """Answer, once a minute."""
    return n


@mini.call
async def ask_cheaply(n: int) -> int:
    """Have no room, as a busy provider."""
    message = f"No room for {n}."
    raise TransientError(message, code=NO_ROOM_CODE, dependency=mini.name)


@fax.call
async def transmit(n: int, *, idempotency_key: str = "") -> int:
    """Give no answer."""
    del idempotency_key
    await asyncio.sleep(SLOW_S)
    return n


async def work(ctx: Context[Order]) -> int:
    """Do what the order says."""
    n = ctx.payload.n
    match ctx.payload.how:
        case "slow":
            await asyncio.sleep(SLOW_S)
        case "breaker":
            await transfer(n)
        case "limit":
            await ask(n)
        case "lane":
            await ask_cheaply(n)
        case "retry":
            raise TransientError("Busy.", code="tool.http.500_x", retry_after=RETRY_S)
        case "sleep":
            await ctx.sleep(hours=2)
        case "ask":
            await ctx.wait_for("approval", ask=f"Pay {n}?", timeout=7_200)
        case "doubt":
            with suppress(PermanentError):
                await transmit(n)
        case "refused":
            raise PermanentError("This order is wrong.")
    return n


async def finish(ctx: Results[int]) -> int:
    """Count the results; fail for an order that says so."""
    hows = {result.label async for result in ctx}
    if "join retry" in hows:
        raise TransientError("Busy.", code="tool.http.500_x", retry_after=RETRY_S)
    if "join refused" in hows:
        raise PermanentError("The report cannot be written.")
    return len(hows)


orders = Pipeline(
    "orders",
    payload=Order,
    stages=[Stage(work)],
    join=finish,
    label=lambda order: order.how,
)
unrelated = Pipeline("unrelated", payload=Order, stages=[Stage(work)])
#: Chunks before the pivot are cancelled at once; these run to their end.
final = Pipeline("final", payload=Order, stages=[Stage(work, name="pay", pivot=True)])


@dataclass(slots=True)
class Fleet:
    """A world without faults, and the processes of an exercise."""

    world: World
    log: Log
    rt: Runtime
    driver: FleetDriver
    processes: list[Process] = field(default_factory=list)

    def worker(
        self,
        *pipelines: Pipeline,
        max_chunks: int = 16,
        reconcile: bool = True,
        quota_wait_s: float = 5.0,
        queues: Sequence[str] = ("",),
        version: str = VERSION,
    ) -> Process:
        """Start a worker that reports; it is not replaced when it dies."""
        number = len(self.processes) + 1
        process = self.world.process(f"worker-{number}", mortal=False)
        self.processes.append(process)
        rt = open_runtime(
            self.world, process, max_chunks=max_chunks, quota_wait_s=quota_wait_s
        )
        known = {each.name: each for each in pipelines or (orders,)}
        services = open_services(
            *(rt, process.name, known, self.log, None, queues),  # type: ignore[arg-type]
            code_versions=dict.fromkeys(known, version),
        )
        stop = asyncio.Event()
        worker = Worker(services, stop)
        self.world.start(process, serve(worker, reconcile=reconcile))
        self.world.start(process, report_until(worker, stop))
        return process

    def kill(self, *processes: Process) -> None:
        """Kill workers; without names, all of them."""
        for process in processes or tuple(self.processes):
            self.world.kill(process)

    async def submit(
        self,
        *hows: str,
        ref: JobRef = REF,
        pipeline: Pipeline = orders,
        pin: bool = False,
    ) -> None:
        """Submit a job with a chunk for each word."""
        items = [Order(n=n, how=how) for n, how in enumerate(hows)]
        done = await self.driver.submit(ref, pipeline, items, pin=pin, mortal=False)
        assert done == "done", done

    async def job(self) -> Job:
        """Return the job."""
        found = await self.rt.jobs.read(REF)
        assert found is not None
        return found

    async def defer(self, blocked_on: str, code: str, *chunks: int) -> None:
        """Defer chunks as a worker does that AWS, or a newer record, refuses."""
        rt = self.rt
        claims = Claims(rt.table, rt.settings, "w", rt.clock, rt.rng)
        settlements = Settlements(rt.table, rt.dead_letters, rt.settings, rt.clock)
        for chunk in chunks:
            claim = await claims.acquire(REF.chunk(chunk), gen=1, receive_count=1)
            assert isinstance(claim, Claim), claim
            failure = ErrorEnvelope(code=code, error_class="transient", message="It.")  # type: ignore[arg-type]
            deferred = Deferred(failure, 600.0, blocked_on)
            assert await settlements.defer(claim, deferred, calls=Calls(0))

    async def explain(self) -> list[Document]:
        """Return the findings about the job."""
        document = await explain(self.rt, await self.job())
        findings: list[Document] = document["findings"]
        return findings


def exercise(act: Callable[[Fleet], Awaitable[T]], **settings: Any) -> T:
    """Run an exercise in a world of its own; fail after an unexpected error."""
    rng = Random(1)
    known = Settings(**{"max_attempts": 3, "code_version": VERSION, **settings})
    world = World(known, Faults({}, rng), rng)
    unexpected: list[str] = []
    log = Log(unexpected.append, lambda _: None)
    driver = FleetDriver(world, {}, log)

    async def run() -> T:
        rt = open_runtime(world, world.process("operator", mortal=False))
        return await act(Fleet(world, log, rt, driver))

    with leftovers_discarded(world):
        result = world.loop.run(run())
        trouble = [*unexpected]  # before the discarding, whose errors are irrelevant
    assert not trouble, trouble
    return result


def many(**hows: int) -> Sequence[str]:
    """Return each word as often as its number says."""
    return [how for how, number in hows.items() for _ in range(number)]
