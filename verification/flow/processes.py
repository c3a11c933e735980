"""How true worker processes use a quota: the embedded AWS, and a provider over HTTP.

The provider keeps the book that is counted here. The times are those of this machine,
so other work on it shows in the figures.
"""

from __future__ import annotations

import asyncio
import functools
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiohttp import web

from piecework.domain.chunk_input import ChunkInput
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.pipelines import Pipeline
from piecework.resilience.limits import Limits
from piecework.runtime import Runtime, connect
from piecework.settings import load_settings
from piecework.store.limits import Quotas
from piecework_orchestrator.demo.processes import (
    DEMO_SETTINGS,
    demo_environment,
    isolated_environ,
)
from piecework_orchestrator.embedded import deploy, environment, server
from piecework_orchestrator.submit.submit import Submission, submit
from verification.flow.calling import (
    A_SECOND,
    PROVIDER_VARIABLE,
    REQUESTS,
    Batch,
    each_second,
    limited,
    metered,
    unlimited,
)
from verification.flow.provider import Provider, most_in_window
from verification.soak.site import aws

TOO_MANY: Final = 429
CALLING: Final = "verification.flow.calling"
#: Workers, and the seconds for which they work under the first limit. The limit then
#: halves, and later doubles.
WORKERS, STEADY_S, CHANGED_S = 8, 100.0, 40.0
CALLS_OF_CHUNK: Final = 20
#: A limit is settled once so many seconds hold about what it allows.
WINDOW_S: Final = 10
#: The example: its calls, its workers, and the seconds that 10 a second take with the
#: last answer.
EXAMPLE_CALLS, EXAMPLE_WORKERS, EXAMPLE_IDEAL_S = 400, 2, 40.0
PATIENCE_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Deployment:
    """The embedded AWS, the provider that the workers call, and the workers' log."""

    rt: Runtime
    provider: Provider
    log: Path

    async def submit(self, pipeline: Pipeline, job: str, calls: int) -> JobRef:
        """Submit a job of so many calls."""
        ref = JobRef("default", job)
        request = Submission(ref, pipeline, job, "make flow")
        await submit(self.rt, request, batches(calls))
        return ref

    async def ended(self, ref: JobRef) -> JobStatus:
        """Return the status of a job once it has ended."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                job = await self.rt.jobs.read(ref)
                if job is not None and job.status.ended:
                    return job.status
                await asyncio.sleep(0.1)

    async def set_limit(self, requests: int) -> None:
        """Change the limit in force, as `piecework limits set` does."""
        quotas = Quotas(self.rt.table, "flow", self.rt.clock, self.rt.rng)
        await quotas.set_limits(metered.name, Limits(requests_per_minute=requests))


@dataclass(frozen=True, slots=True)
class Steady:
    """The run of the whole fleet: the provider's book, and when the limit changed."""

    provider: Provider
    began: float
    changed: dict[int, float]

    def settle_s(self, limit: int) -> float:
        """Return the seconds until the fleet kept to a changed limit."""
        changed, quota = self.changed[limit], limit / 60 * WINDOW_S
        for seconds in range(round(CHANGED_S) - WINDOW_S):
            begin = changed + seconds
            made = self.provider.book.requests_between(begin, begin + WINDOW_S)
            if 0.8 * quota <= made <= 1.05 * quota:
                return seconds
        return CHANGED_S


async def batches(calls: int) -> AsyncIterator[ChunkInput]:
    """Yield the chunks of so many calls."""
    for n in range(calls // CALLS_OF_CHUNK):
        batch = Batch(n=n, calls=CALLS_OF_CHUNK)
        yield ChunkInput(f"chunk {n}", batch.model_dump_json().encode())


def on_deployment(
    act: Callable[[Deployment], Awaitable[object]],
    workers: int,
    modules: Sequence[str] = (CALLING,),
    queues: Sequence[str] = (),
    **provider: int,
) -> object:
    """Run an act beside so many worker processes, on an AWS of its own.

    The workers take the modules of their pipelines in turn.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        emulator = server.start(
            environment.ensure_environment(print), folder, "us-east-1"
        )
        seen = demo_environment(os.environ, folder) | aws(emulator.endpoint)
        defaults = {k: v for k, v in seen.items() if k not in DEMO_SETTINGS}
        try:
            with isolated_environ(defaults):
                app, env = defaults["PIECEWORK_APP"], defaults["PIECEWORK_ENV"]
                deploy.deploy_embedded(emulator, app, env, queues)
                loaded = [modules[n % len(modules)] for n in range(workers)]
                return asyncio.run(measure(act, folder, loaded, **provider))
        finally:
            server.stop(emulator.pid, folder)


async def measure(
    act: Callable[[Deployment], Awaitable[object]],
    folder: Path,
    modules: Sequence[str],
    **provider: int,
) -> object:
    """Start provider and workers, let each worker work once, and run the act."""
    log = folder / "workers.log"
    stub = Provider(time.monotonic, **provider)
    async with (
        served(stub) as address,
        connect(load_settings()) as rt,
        worker_processes(modules, address, log),
    ):
        deployment = Deployment(rt, stub, log)
        calls = len(modules) * CALLS_OF_CHUNK
        warm = await deployment.submit(unlimited, "warm", calls)
        await deployment.ended(warm)
        stub.forget()
        return await act(deployment)


@asynccontextmanager
async def served(provider: Provider) -> AsyncIterator[str]:
    """Serve a provider over HTTP; yield its address."""

    async def answer(_: web.Request) -> web.Response:
        if not provider.admits(0):
            headers = {"Retry-After": f"{provider.retry_after:g}"}
            return web.Response(status=TOO_MANY, headers=headers)
        await provider.work()
        return web.Response(text="answered")

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}/"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def worker_processes(
    modules: Sequence[str], provider: str, log: Path
) -> AsyncIterator[None]:
    """Run a worker process for each module."""
    with log.open("ab") as output:
        workers = [
            await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "piecework_worker", "--pipelines", module),
                stderr=output,
                env={**os.environ, PROVIDER_VARIABLE: provider},
            )
            for module in modules
        ]
        try:
            yield
        finally:
            for worker in workers:
                worker.kill()
            await asyncio.gather(*(worker.wait() for worker in workers))


# ── the figures ───────────────────────────────────────────────────────────────


@functools.cache
def steady() -> Steady:
    """Run 8 workers under 600 requests a minute, then under half and the double."""

    async def act(deployment: Deployment) -> Steady:
        provider, changed = deployment.provider, {}
        calls = REQUESTS / 60 * (STEADY_S + 3 * CHANGED_S)
        await deployment.submit(limited, "limited", round(calls))
        began = provider.now()
        await asyncio.sleep(STEADY_S)
        provider.requests = 0  # the rates are read off the book alone
        for limit in (REQUESTS // 2, REQUESTS * 2):
            changed[limit] = provider.now()
            await deployment.set_limit(limit)
            await asyncio.sleep(CHANGED_S)
        return Steady(provider, began, changed)

    found = on_deployment(act, WORKERS, requests=REQUESTS, window_s=60)
    assert isinstance(found, Steady)
    return found


def steady_times() -> list[float]:
    """Return the times of the calls that were admitted under the first limit."""
    run = steady()
    return [
        at - run.began
        for at, _ in run.provider.book.admitted
        if at < run.began + STEADY_S
    ]


def calls_in_a_minute() -> float:
    """Return the most calls that the provider admitted in any 60 seconds."""
    return most_in_window(steady_times(), 60.0)


def requests_unused_percent() -> float:
    """Return the unused part of the quota, between 10 % and 90 % of the run."""
    begin, end = 0.1 * STEADY_S, 0.9 * STEADY_S
    used = sum(begin <= at < end for at in steady_times())
    return 100 * (1 - used / (REQUESTS / 60 * (end - begin)))


def settle_s() -> float:
    """Return the longest time to settle after a limit halves, and after it doubles."""
    run = steady()
    return max(run.settle_s(limit) for limit in run.changed)


@functools.cache
def example() -> tuple[float, Provider]:
    """Run 400 calls of a second through two workers; the provider allows 10 a second.

    Returns the seconds from the submit to the end of the job, and the provider.
    """

    async def act(deployment: Deployment) -> tuple[float, Provider]:
        began = time.monotonic()
        ref = await deployment.submit(limited, "example", EXAMPLE_CALLS)
        status = await deployment.ended(ref)
        assert status is JobStatus.SUCCEEDED, status
        return time.monotonic() - began, deployment.provider

    found = on_deployment(act, EXAMPLE_WORKERS, requests=REQUESTS // 60)
    assert isinstance(found, tuple)
    return found


def example_by_ideal() -> float:
    """Return the makespan of the example by the ideal one."""
    return example()[0] / EXAMPLE_IDEAL_S


@functools.cache
def second(*, busy: bool) -> Provider:
    """Run 400 calls under 10 a second through two workers; return the provider.

    `busy`: beside as many processes that only compute.
    """

    async def act(deployment: Deployment) -> Provider:
        async with burners(EXAMPLE_WORKERS if busy else 0):
            ref = await deployment.submit(each_second, "second", EXAMPLE_CALLS)
            status = await deployment.ended(ref)
        assert status is JobStatus.SUCCEEDED, status
        return deployment.provider

    found = on_deployment(act, EXAMPLE_WORKERS, requests=A_SECOND)
    assert isinstance(found, Provider)
    return found


@asynccontextmanager
async def burners(number: int) -> AsyncIterator[None]:
    """Keep so many processors busy."""
    burn = [sys.executable, "-c", "while True: pass"]
    running = [await asyncio.create_subprocess_exec(*burn) for _ in range(number)]
    try:
        yield
    finally:
        for burner in running:
            burner.kill()
        await asyncio.gather(*(burner.wait() for burner in running))


def second_refused_percent(*, busy: bool) -> float:
    """Return the refusals for each 100 answers under a limit for each second."""
    book = second(busy=busy).book
    return 100 * len(book.refused) / len(book.admitted)


def second_unused_percent(*, busy: bool) -> float:
    """Return the unused part of the limit, from 10 % to 90 % of the answers."""
    times = [at for at, _ in second(busy=busy).book.admitted]
    first, last = times[len(times) // 10], times[len(times) * 9 // 10]
    used = sum(first <= at < last for at in times)
    return 100 * (1 - used / (A_SECOND * (last - first)))


def refused_percent() -> float:
    """Return the refusals for each 100 admitted calls, of the fleet and the example."""
    books = [steady().provider.book, example()[1].book]
    refused = sum(len(book.refused) for book in books)
    return 100 * refused / sum(len(book.admitted) for book in books)
