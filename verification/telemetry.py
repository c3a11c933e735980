"""Measure what traces and metrics cost a worker: CPU a chunk, and requests to AWS.

Two equal processes differ by some points of CPU for as long as they live. So a true
worker runs equal jobs on the embedded AWS in turn without and with telemetry. A signal
switches telemetry: OpenTelemetry's SDK, an exporter that writes JSON, and metrics for
CloudWatch. Other programs of the machine slow some jobs down. So each job is compared
with the one beside it, and the median of all these pairs counts.

`make telemetry` prints the figures of several workers. It fails above 5 % of the CPU,
or with half a request more a chunk. `ARGS="--ratio 1"` sends the trace of each chunk.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from pydantic import BaseModel

from piecework import Context, Dependency, Pipeline, Stage, Usage
from piecework.aws.endpoint import Emulator
from piecework.client import Client
from piecework.domain.refs import JobRef
from piecework.runtime import connect
from piecework.settings import load_settings
from piecework.store.costs import Costs
from piecework.telemetry.emit import Listener
from piecework.telemetry.traces import Traces
from piecework_orchestrator.embedded import deploy
from piecework_worker.__main__ import main as worker_main
from verification.soak.site import own_aws

#: The module, which the package hides behind its function `emit`.
emit_module = importlib.import_module("piecework.telemetry.emit")
#: The most that telemetry may add to the CPU of a chunk.
LIMIT = 0.05
TICKS = os.sysconf("SC_CLK_TCK")
#: Chunks of the first job of a worker, which is not measured.
WARM = 300
#: Costs are counted in thousandths.
MILLI = 1_000
#: Seconds for a signal to be handled, and for the spans that wait to be written.
SETTLE_S = 0.5


class Row(BaseModel):
    """A chunk: its number."""

    n: int


model = Dependency(
    "model", layer="llm", model="small", usage=lambda _: Usage(100, 10, model="small")
)


async def answer(n: int) -> int:
    """Stand in for a model."""
    await asyncio.sleep(0.01)
    return n


async def ask(ctx: Context[Row]) -> int:
    """Make one call."""
    return await ctx.call(model, answer, ctx.payload.n)


asking = Pipeline("asking", payload=Row, stages=[Stage(ask)])


def work() -> None:
    """Run a worker whose telemetry SIGUSR1 starts and SIGUSR2 stops."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

    exporter = ConsoleSpanExporter(
        out=Path(os.devnull).open("w"),  # noqa: SIM115 -- until the process ends
        formatter=lambda span: span.to_json(indent=None),
    )
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    switch = Switch(provider.force_flush)
    signal.signal(signal.SIGUSR1, lambda *_: switch.start())
    signal.signal(signal.SIGUSR2, lambda *_: switch.stop())
    sys.argv = ["worker", "--pipelines", "verification.telemetry", "--no-reconcile"]
    worker_main()


@dataclass
class Switch:
    """Stops the telemetry of a running worker, and starts it again.

    `flush` writes the spans that wait, so that no later job pays for them.
    """

    flush: Callable[[], object]
    listeners: list[Listener] = field(default_factory=list)
    of_claim: Callable[..., AbstractContextManager[None]] = Traces.of_claim

    def stop(self) -> None:
        """Let no listener see an event, and record no claim."""
        if not self.listeners:
            self.listeners = [*emit_module._LISTENERS]
        emit_module._LISTENERS.clear()
        setattr(Traces, "of_claim", lambda *_, **__: nullcontext())  # noqa: B010
        self.flush()

    def start(self) -> None:
        """Undo `stop`, if it was called."""
        if self.listeners:
            emit_module._LISTENERS[:] = self.listeners
            setattr(Traces, "of_claim", self.of_claim)  # noqa: B010


def cpu_s(pid: int) -> float:
    """Return the seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@dataclass
class Side:
    """What the jobs of a worker used, with telemetry or without."""

    starts: signal.Signals
    cpu_s: list[float] = field(default_factory=list)
    requests: float = 0.0
    jobs: list[JobRef] = field(default_factory=list)


@dataclass
class Worker:
    """A worker with a deployment of its own, and its two sides."""

    client: Client
    process: asyncio.subprocess.Process
    off: Side = field(default_factory=lambda: Side(signal.SIGUSR2))
    on: Side = field(default_factory=lambda: Side(signal.SIGUSR1))

    async def run(self, name: str, side: Side, chunks: int) -> None:
        """Run a job on a side; add its CPU, and that of writing its spans."""
        await self._tell(side.starts)
        before = cpu_s(self.process.pid)
        rows = [Row(n=n) for n in range(chunks)]
        job = await self.client.submit(asking, rows, id=name)
        await job.wait()
        await self._tell(signal.SIGUSR2)
        side.cpu_s.append(cpu_s(self.process.pid) - before)
        side.jobs.append(job.ref)

    async def _tell(self, what: signal.Signals) -> None:
        self.process.send_signal(what)
        await asyncio.sleep(SETTLE_S)

    async def stop(self) -> None:
        """Stop the worker, which writes its last costs, and count its requests."""
        await self._tell(self.on.starts)  # as it was at its start
        self.process.terminate()
        await self.process.wait()
        for side in (self.off, self.on):
            for ref in side.jobs:
                bill = (await Costs(self.client.runtime.table).of(ref))["worker"]
                counted = [n for kind, n in bill.items() if kind.endswith("requests")]
                side.requests += sum(counted) / MILLI


@asynccontextmanager
async def worker(env: str, **variables: str) -> AsyncIterator[Worker]:
    """Deploy an environment of its own, and run a worker there."""
    region, url = os.environ["AWS_DEFAULT_REGION"], os.environ["AWS_ENDPOINT_URL"]
    emulator = Emulator(url, 0, region, "", deploy.ACCESS_KEY)
    deploy.deploy_embedded(emulator, os.environ["PIECEWORK_APP"], env)
    settings = load_settings(env=env)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "verification.telemetry", "--worker"),
        env={**os.environ, "PIECEWORK_ENV": env, **variables},
        stdout=asyncio.subprocess.DEVNULL,
    )
    async with connect(settings) as rt, Client(runtime=rt) as client:
        found = Worker(client, process)
        try:
            yield found
        finally:
            await found.stop()


async def measured(env: str, chunks: int, rounds: int, ratio: float) -> Worker:
    """Run rounds of two equal jobs, one on each side; return the worker."""
    added = {"PIECEWORK_METRICS": "emf", "PIECEWORK_TRACE_RATIO": str(ratio)}
    async with worker(env, **added) as found:
        job = await found.client.submit(asking, [Row(n=n) for n in range(WARM)])
        await job.wait()
        for turn in range(rounds):
            sides = (found.off, found.on) if turn % 2 else (found.on, found.off)
            for n, side in enumerate(sides):
                await found.run(f"job-{turn}-{n}", side, chunks)
    return found


#: The two sides of a worker: without telemetry, and with it.
SIDES: tuple[Callable[[Worker], Side], ...] = (lambda w: w.off, lambda w: w.on)


async def run(workers: int, chunks: int, rounds: int, ratio: float) -> dict[str, float]:
    """Measure several workers; return the figures of all, with their spread."""
    found = [await measured(f"w{n}", chunks, rounds, ratio) for n in range(workers)]
    done = chunks * rounds * workers
    off_s, on_s = ([s for w in found for s in side(w).cpu_s] for side in SIDES)
    shares = sorted(on / off - 1 for off, on in zip(off_s, on_s, strict=True))
    quarter = len(shares) // 4
    off_n, on_n = sum(w.off.requests for w in found), sum(w.on.requests for w in found)
    return {
        "workers": workers,
        "chunks_of_each_kind": done,
        "cpu_us_a_chunk": round(median(off_s) / chunks * 1e6),
        "cpu_us_a_chunk_with_telemetry": round(median(on_s) / chunks * 1e6),
        "pairs": len(shares),
        "added_share": round(median(shares), 3),
        "lower_quarter": round(shares[quarter], 3),
        "upper_quarter": round(shares[-1 - quarter], 3),
        "requests_a_chunk": round(off_n / done, 2),
        "requests_a_chunk_with_telemetry": round(on_n / done, 2),
    }


def main() -> None:
    """Measure on an AWS of its own; end with 1 if a figure exceeds its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--chunks", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--ratio", type=float, default=load_settings().trace_ratio)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work()
    with own_aws(PIECEWORK_LOG_LEVEL="error"):
        figures = asyncio.run(run(args.workers, args.chunks, args.rounds, args.ratio))
    sys.stdout.write(" ".join(f"{k}={v}" for k, v in figures.items()) + "\n")
    more = figures["requests_a_chunk_with_telemetry"] - figures["requests_a_chunk"]
    sys.exit(figures["added_share"] > LIMIT or more >= 0.5)


if __name__ == "__main__":
    main()
