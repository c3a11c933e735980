"""Measure what traces and metrics cost a worker: CPU a chunk, and requests to AWS.

True workers run equal jobs on the embedded AWS, in turn without and with telemetry:
OpenTelemetry's SDK with an exporter that writes JSON, metrics for CloudWatch, and
Prometheus. `make telemetry` prints the figures, and fails above 5 % of the CPU or with
one more request. `ARGS="--ratio 1"` sends the trace of each chunk.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from pydantic import BaseModel

from piecework import Context, Dependency, Pipeline, Stage, Usage
from piecework.client import Client
from piecework.runtime import connect
from piecework.settings import load_settings
from piecework.store.costs import Costs
from piecework_worker.__main__ import main as worker_main
from verification.soak.site import own_aws

#: The most that telemetry may add to the CPU of a chunk.
LIMIT = 0.05
TICKS = os.sysconf("SC_CLK_TCK")
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


def free_port() -> int:
    """Return a port of the loopback that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


async def measure(
    client: Client, name: str, chunks: int, added: Mapping[str, str] | None
) -> tuple[float, float]:
    """Run a job on a fresh worker; return its CPU and its requests, each a chunk.

    A small job before it warms the worker up.
    """
    words = [*WORKER, *(["--traced"] if added is not None else [])]
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        env={**os.environ, **(added or {})},
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        rows = [Row(n=n) for n in range(chunks)]
        await (await client.submit(asking, rows[:200], id=f"{name}-warm")).wait()
        before = cpu_s(worker.pid)
        job = await client.submit(asking, rows, id=name)
        await job.wait()
        used = cpu_s(worker.pid) - before
    finally:
        worker.terminate()
        await worker.wait()
    row = (await Costs(client.runtime.table).of(job.ref))["worker"]
    counted = [n for name, n in row.items() if name.endswith("requests")]
    return used / chunks, sum(counted) / MILLI / chunks


async def run(chunks: int, rounds: int, ratio: float) -> dict[str, float]:
    """Measure rounds without and with telemetry in turn; return the figures."""
    without, with_it = [], []
    async with connect(load_settings()) as rt, Client(runtime=rt) as client:
        for turn in range(rounds):
            added = {
                "PIECEWORK_METRICS": "emf",
                "PIECEWORK_PROMETHEUS_PORT": str(free_port()),
                "PIECEWORK_TRACE_RATIO": str(ratio),
            }
            without.append(await measure(client, f"off-{turn}", chunks, None))
            with_it.append(await measure(client, f"on-{turn}", chunks, added))
    shares = [b[0] / a[0] - 1 for a, b in zip(without, with_it, strict=True)]
    return {
        "cpu_us_a_chunk": round(median(cpu for cpu, _ in without) * 1e6),
        "cpu_us_a_chunk_with_telemetry": round(median(c for c, _ in with_it) * 1e6),
        "added_share": round(median(shares), 3),
        "lowest_share": round(min(shares), 3),
        "highest_share": round(max(shares), 3),
        "requests_a_chunk": round(median(r for _, r in without), 2),
        "requests_a_chunk_with_telemetry": round(median(r for _, r in with_it), 2),
    }


def main() -> None:
    """Measure on an AWS of its own; end with 1 if a figure exceeds its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=3_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ratio", type=float, default=load_settings().trace_ratio)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--traced", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(traced=args.traced)
    with own_aws(PIECEWORK_LOG_LEVEL="error"):
        figures = asyncio.run(run(args.chunks, args.rounds, args.ratio))
    sys.stdout.write(" ".join(f"{k}={v}" for k, v in figures.items()) + "\n")
    more = figures["requests_a_chunk_with_telemetry"] - figures["requests_a_chunk"]
    sys.exit(figures["added_share"] > LIMIT or more >= 1)


if __name__ == "__main__":
    main()
