"""Measure what traces and metrics cost a worker: CPU a chunk, and requests to AWS.

Pairs of true workers run equal jobs on the embedded AWS, one of them with telemetry:
OpenTelemetry's SDK with an exporter that writes JSON, and metrics for CloudWatch.
`make telemetry` prints the figures. It fails above 5 % of the CPU, or with half a
request more a chunk. `ARGS="--ratio 1"` sends the trace of each chunk.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel

from piecework import Context, Dependency, Pipeline, Stage, Usage
from piecework.aws.endpoint import Emulator
from piecework.client import Client
from piecework.domain.model import JobRef
from piecework.runtime import connect
from piecework.settings import load_settings
from piecework.store.costs import Costs
from piecework_orchestrator.embedded import deploy
from piecework_worker.__main__ import main as worker_main
from verification.soak.site import own_aws

#: The most that telemetry may add to the CPU of a chunk.
LIMIT = 0.05
TICKS = os.sysconf("SC_CLK_TCK")
#: Chunks of the first job of a worker, which is not measured.
WARM = 300
#: Costs are counted in thousandths.
MILLI = 1_000
WORKER = ("-m", "verification.telemetry", "--worker")


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


def work(*, traced: bool) -> None:
    """Run a worker; with traces, through the SDK and to an exporter of JSON."""
    if traced:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import (
            BatchSpanProcessor,
            ConsoleSpanExporter,
        )

        exporter = ConsoleSpanExporter(
            out=Path(os.devnull).open("w"),  # noqa: SIM115 -- until the process ends
            formatter=lambda span: span.to_json(indent=None),
        )
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(exporter))
        trace.set_tracer_provider(provider)
    sys.argv = ["worker", "--pipelines", "verification.telemetry", "--no-reconcile"]
    worker_main()


def cpu_s(pid: int) -> float:
    """Return the seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@dataclass
class Side:
    """A worker with a deployment of its own, and what its jobs used so far."""

    client: Client
    process: asyncio.subprocess.Process
    cpu_s: float = 0.0
    requests: float = 0.0
    jobs: list[JobRef] = field(default_factory=list)

    async def run(self, name: str, chunks: int) -> None:
        """Run a job, and add what it used."""
        before = cpu_s(self.process.pid)
        rows = [Row(n=n) for n in range(chunks)]
        job = await self.client.submit(asking, rows, id=name)
        await job.wait()
        self.cpu_s += cpu_s(self.process.pid) - before
        self.jobs.append(job.ref)

    async def stop(self) -> None:
        """Stop the worker, which writes its last costs, and count its requests."""
        self.process.terminate()
        await self.process.wait()
        for ref in self.jobs:
            bill = (await Costs(self.client.runtime.table).of(ref))["worker"]
            counted = [n for kind, n in bill.items() if kind.endswith("requests")]
            self.requests += sum(counted) / MILLI


@asynccontextmanager
async def side(env: str, *words: str, **variables: str) -> AsyncIterator[Side]:
    """Deploy an environment of its own, and run a worker there."""
    region, url = os.environ["AWS_DEFAULT_REGION"], os.environ["AWS_ENDPOINT_URL"]
    emulator = Emulator(url, 0, region, "", deploy.ACCESS_KEY)
    deploy.deploy_embedded(emulator, os.environ["PIECEWORK_APP"], env)
    settings = load_settings(env=env)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *WORKER, *words),
        env={**os.environ, "PIECEWORK_ENV": env, **variables},
        stdout=asyncio.subprocess.DEVNULL,
    )
    async with connect(settings) as rt, Client(runtime=rt) as client:
        found = Side(client, process)
        try:
            yield found
        finally:
            await found.stop()


async def pair(name: str, chunks: int, rounds: int, ratio: float) -> tuple[Side, Side]:
    """Run rounds of two equal jobs, one on each of two new workers; return both.

    The workers take turns, so that both meet the same load of the machine.
    """
    added = {
        "PIECEWORK_METRICS": "emf",
        "PIECEWORK_TRACE_RATIO": str(ratio),
    }
    with_telemetry = side(f"on{name}", "--traced", **added)
    async with side(f"off{name}") as off, with_telemetry as on:
        for each in (off, on):
            await each.run("warm", WARM)
            each.cpu_s, each.jobs = 0.0, []
        for turn in range(rounds):
            for each in (off, on) if turn % 2 else (on, off):
                await each.run(f"job-{turn}", chunks)
    return off, on


def sides_of(found: list[tuple[Side, Side]]) -> tuple[list[Side], list[Side]]:
    """Return all workers without telemetry, and all with it."""
    return [off for off, _ in found], [on for _, on in found]


async def run(pairs: int, chunks: int, rounds: int, ratio: float) -> dict[str, float]:
    """Measure pairs of workers, and return the figures of all, with their spread.

    Two equal processes differ by some points of CPU for as long as they live, so a
    single pair shows little.
    """
    found = [await pair(str(n), chunks, rounds, ratio) for n in range(pairs)]
    done = chunks * rounds * pairs
    shares = [on.cpu_s / off.cpu_s - 1 for off, on in found]
    off_s, on_s = (sum(each.cpu_s for each in sides) for sides in sides_of(found))
    off_n, on_n = (sum(each.requests for each in sides) for sides in sides_of(found))
    return {
        "pairs": pairs,
        "chunks": done,
        "cpu_us_a_chunk": round(off_s / done * 1e6),
        "cpu_us_a_chunk_with_telemetry": round(on_s / done * 1e6),
        "added_share": round(on_s / off_s - 1, 3),
        "least_of_a_pair": round(min(shares), 3),
        "most_of_a_pair": round(max(shares), 3),
        "requests_a_chunk": round(off_n / done, 2),
        "requests_a_chunk_with_telemetry": round(on_n / done, 2),
    }


def main() -> None:
    """Measure on an AWS of its own; end with 1 if a figure exceeds its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--chunks", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--ratio", type=float, default=load_settings().trace_ratio)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--traced", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(traced=args.traced)
    with own_aws(PIECEWORK_LOG_LEVEL="error"):
        figures = asyncio.run(run(args.pairs, args.chunks, args.rounds, args.ratio))
    sys.stdout.write(" ".join(f"{k}={v}" for k, v in figures.items()) + "\n")
    more = figures["requests_a_chunk_with_telemetry"] - figures["requests_a_chunk"]
    sys.exit(figures["added_share"] > LIMIT or more >= 0.5)


if __name__ == "__main__":
    main()
