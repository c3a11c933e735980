"""Record the AWS requests of jobs of two sizes, with the real submit and worker.

python -m bench.limits.record writes bench/limits/recorded.json. It records counts and
sizes only. They are equal on every machine, except for how many chunks happen to share
a request.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import structlog
from pydantic import BaseModel
from pydantic_core import to_json

from bench.limits.proxy import RecordingProxy, item_kind, open_proxy
from piecework import Context, Dependency, Stage, telemetry
from piecework.aws.endpoint import Emulator
from piecework.cost.units import item_size
from piecework.domain.chunk_input import ChunkInput
from piecework.domain.job import Job
from piecework.domain.keys import sha256
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus
from piecework.jobs.fan_in import certify
from piecework.pipelines import Pipeline
from piecework.runtime import Runtime, connect
from piecework.settings import load_settings
from piecework.store.completion import Counted, JobSnapshot
from piecework_orchestrator.embedded import deploy, environment, server
from piecework_orchestrator.embedded.deploy import ACCESS_KEY, make_client
from piecework_orchestrator.submit.submit import Submission, submit
from piecework_worker.services import open_services
from piecework_worker.worker import Worker

FILE: Final = Path(__file__).with_name("recorded.json")
SIZES: Final = (300, 1_000)
CONCURRENCY: Final = 32
#: Seconds between two reads of the job's status.
POLL_S: Final = 1.0
#: Chunks by which the memory of a job's end is measured.
SAMPLE: Final = 20_000
APP, ENV, TENANT = "piecework", "limits", "default"


def main() -> None:
    """Record everything and write the file."""
    telemetry.configure("error")
    with tempfile.TemporaryDirectory() as folder, emulator(Path(folder)) as running:
        deploy.deploy_embedded(running, APP, ENV)
        jobs = {
            name: {
                str(size): asyncio.run(record(running, name, size)) for size in SIZES
            }
            for name in PIPELINES
        }
    document = {
        "command": "python -m bench.limits.record",
        "finish_bytes_a_chunk": finish_bytes(),
        "jobs": jobs,
    }
    FILE.write_text(
        json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )


@contextmanager
def emulator(folder: Path) -> Iterator[Emulator]:
    """Run an emulator, and point this process at it."""
    running = server.start(
        environment.ensure_environment(report=print), folder, "us-east-1"
    )
    os.environ |= {
        "AWS_DEFAULT_REGION": running.region,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": ACCESS_KEY,
        "PIECEWORK_APP": APP,
        "PIECEWORK_ENV": ENV,
    }
    try:
        yield running
    finally:
        server.stop(running.pid, folder)


async def record(running: Emulator, name: str, size: int) -> dict[str, Any]:
    """Run one job; return the requests of its submitter and of its worker."""
    ref = JobRef(TENANT, f"{PIPELINES[name].name}-{size}")
    settings = load_settings(max_chunks=CONCURRENCY)
    async with open_proxy(running.endpoint) as proxy:
        os.environ["AWS_ENDPOINT_URL"] = proxy.url
        async with connect(settings, actor="worker") as rt:
            request = Submission(ref, PIPELINES[name], "recording", "recording")
            await submit(rt, request, numbers(size))
            submitted = rows(proxy)
            proxy.totals.clear()
            await run_worker(rt, PIPELINES[name], ref)
        done = rows(proxy)
    return {
        "submitter": submitted,
        "worker": done,
        "item_bytes": item_bytes(running, settings.checkpoints_table, ref),
    }


async def numbers(count: int) -> AsyncIterator[ChunkInput]:
    """Yield the chunks."""
    for n in range(count):
        yield ChunkInput("", json.dumps({"n": n}).encode())


async def run_worker(rt: Runtime, pipeline: Pipeline, ref: JobRef) -> None:
    """Be a worker until a job has ended."""
    services = open_services(
        rt, "recording", {pipeline.name: pipeline}, structlog.get_logger()
    )
    stop = asyncio.Event()
    working = asyncio.create_task(Worker(services, stop).run())
    job = None
    while job is None or not job.status.ended:
        await asyncio.sleep(POLL_S)  # rarely: it passes through the same proxy
        job = await rt.jobs.read(ref)
    stop.set()
    await working


def finish_bytes() -> int:
    """Return the peak memory per chunk of the process that ends a job, in bytes."""
    item = {"manifest": "", "manifest_sha256": "", "pipeline": "p", "chunks": SAMPLE}
    job = Job.read(JobRef(TENANT, "job"), {"status": "FINALIZING", "gen": 1, **item})
    tracemalloc.start()
    try:
        rows = [
            Counted(n, ChunkStatus.SUCCEEDED, sha256(b"%d" % n), "", "")
            for n in range(SAMPLE)
        ]
        to_json(certify(job, JobSnapshot(rows), 0.0, ""), indent=1)
        return tracemalloc.get_traced_memory()[1] // SAMPLE
    finally:
        tracemalloc.stop()


def rows(proxy: RecordingProxy) -> list[dict[str, Any]]:
    """Return the totals of a proxy in a stable order."""
    return [
        {
            "operation": operation,
            "kind": kind,
            "requests": round(found.requests, 3),
            "units": round(found.units, 3),
            "entries": found.entries,
            "bytes": found.bytes,
        }
        for (operation, kind), found in sorted(proxy.totals.items())
    ]


def item_bytes(running: Emulator, table: str, ref: JobRef) -> dict[str, int]:
    """Return the largest size of each kind of item of a job."""
    largest: dict[str, int] = {}
    with closing(make_client("dynamodb", running)) as dynamodb:
        pages = dynamodb.get_paginator("scan").paginate(TableName=table)
        for item in (item for page in pages for item in page["Items"]):
            pk, sk = item["pk"]["S"], item["sk"]["S"]
            if pk == ref.pk or pk.startswith(f"{ref.pk}#"):
                kind = item_kind(pk, sk)
                largest[kind] = max(largest.get(kind, 0), item_size(item))
    return dict(sorted(largest.items()))


# ── the two recorded jobs ─────────────────────────────────────────────────────

#: Calls of each stage, and seconds of a call: together longer than the journal lingers.
CALLS: Final = 5
CALL_S: Final = 0.08


class Number(BaseModel):
    """The payload of a chunk."""

    n: int


async def do_nothing(ctx: Context[Number]) -> int:
    """Do nothing."""
    return ctx.payload.n


async def answer(n: int, *, idempotency_key: str) -> int:
    """Replace a remote service."""
    del idempotency_key
    await asyncio.sleep(CALL_S)
    return n


service = Dependency("service")


async def calls(ctx: Context[Number]) -> int:
    """Make a few calls, one after the other; their answers are remembered."""
    return sum([await ctx.call(service, answer, n) for n in range(CALLS)])


async def read(ctx: Context[Number]) -> int:
    """Be the first of three stages."""
    return await calls(ctx)


async def second(ctx: Context[Number]) -> int:
    """Be the second."""
    return await calls(ctx)


async def write(ctx: Context[Number]) -> int:
    """Run the last stage; its value is the result."""
    return await calls(ctx)


PIPELINES: Final = {
    "no calls": Pipeline(name="no-calls", payload=Number, stages=[Stage(do_nothing)]),
    "three stages": Pipeline(
        name="three-stages",
        payload=Number,
        stages=[Stage(read), Stage(second), Stage(write)],
    ),
}


if __name__ == "__main__":
    main()
