"""Measure a collector that brings 100,000 rows back: memory, requests, CPU.

`make batch-lane` prints `rows=100000 rss_mib=… requests_a_call=…`, and fails above
200 MiB, or above 3 requests to DynamoDB a call. Each row is the only call of its chunk,
which is the dearest case. The collector is alone in its process, with the SDK of
OpenAI. The models of AWS and the provider are in the process that starts it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import openai
import structlog
from pydantic import BaseModel

from piecework import pipeline
from piecework.aws.endpoint import DEFAULT_REGION
from piecework.calls.fleet_budgets import FleetBudgets
from piecework.declared import as_pipeline
from piecework.dependency import Dependency
from piecework.domain import keys
from piecework.domain.batch import Request
from piecework.domain.chunk import Chunk
from piecework.domain.claim import Claim
from piecework.domain.moments import iso
from piecework.domain.outcome import BATCH
from piecework.domain.refs import JobRef
from piecework.llm import Lane, Model, ModelRequest, Price, Turn, openai_chat
from piecework.resilience.batching import GRACE_S
from piecework.runtime import EMBEDDED_ACCOUNT, Runtime, connect
from piecework.settings import Settings, load_settings
from piecework.store.batches import Batches, request_writes
from piecework_orchestrator.submit.submit import Submission, submit
from piecework_simulation.aws.dynamodb import DynamoDB
from piecework_simulation.aws_server.server import serve_aws
from piecework_simulation.driver.processes import read_inputs
from piecework_simulation.in_process import InProcessAws
from piecework_worker.batches import Collector
from tests.providers.openai_stub import OpenAIStub
from tests.providers.serving import served

KEY: Final = "AKIABATCHLANE"
REF: Final = JobRef("default", "rows")
#: What a collector may take: the figures of the lane.
MOST_MIB, MOST_REQUESTS = 200.0, 3.0
#: The letters of a prompt, and of an answer.
PROMPT, ANSWER = 1_000, 300
#: Chunks that are written at the same time.
AT_ONCE: Final = 256
#: Where the collector finds the provider.
PROVIDER: Final = "BATCH_LANE_PROVIDER"
MIB: Final = 2**20


class Row(BaseModel):
    """A chunk."""

    n: int


def model() -> Dependency:
    """Return the model; each process has its client."""
    client = openai.AsyncOpenAI(
        api_key="k", base_url=f"{os.environ.get(PROVIDER, 'http://127.0.0.1')}/v1"
    )
    lane = Lane.batch(within="12h", at_least=100, gather=0)
    price = Price(input=0.25, output=2.0, tiers={"batch": 0.5})
    found = Model(
        "mini", openai_chat(client), model_id="gpt-5-mini", price=price, lane=lane
    )
    return found.dependency


@pipeline
async def asking(row: Row) -> str:
    """Stand for a stage that asks: its chunks wait already."""
    return str(row.n)


# ── the collector, in a process of its own ────────────────────────────────────


async def collect() -> dict[str, Any]:
    """Collect until nothing is open; return what that took."""
    log: Any = structlog.wrap_logger(structlog.PrintLogger(sys.stderr)).bind()
    async with connect(load_settings()) as rt:
        budgets = FleetBudgets(rt.budgets, "w1", rt.clock, rt.rng, log)
        collector = Collector(rt, "w1", budgets, log)
        mini = model()
        assert mini.batch is not None
        collector.models[mini.batch.key] = mini
        before, began = memory("VmRSS"), rt.clock()
        while True:
            await collector.look()
            ((_, row),) = [each async for each in collector.batches.collectors()]
            if not row.next_at:
                break
            await asyncio.sleep(5.0)
        return {
            "rss_before_mib": round(before / 1024, 1),
            "rss_mib": round(memory("VmHWM") / 1024, 1),
            "seconds": round(rt.clock() - began),
            "cpu_s": round(time.process_time(), 1),
        }


def memory(name: str) -> int:
    """Return a figure of this process's memory, in KiB."""
    status = Path("/proc/self/status").read_text("utf-8")
    found = re.search(rf"{name}:\s+(\d+)", status)
    return int(found[1]) if found else 0


# ── what it collects ──────────────────────────────────────────────────────────


async def plant(rt: Runtime, rows: int) -> None:
    """Submit a job, and let each chunk wait with one request."""
    found = as_pipeline(asking)
    asked = Submission(REF, found, "rows", "me")
    await submit(rt, asked, read_inputs(found, [Row(n=n) for n in range(rows)]))
    mini = model()
    for first in range(0, rows, AT_ONCE):
        some = range(first, min(first + AT_ONCE, rows))
        await asyncio.gather(*(wait_with_request(rt, mini, n) for n in some))
    assert mini.batch is not None
    batches = Batches(rt.table, rt.objects, rt.clock)
    place = REF.tenant, mini.batch.key
    await batches.need(place, rt.clock(), model="mini", provider=mini.provider)


async def wait_with_request(rt: Runtime, mini: Dependency, number: int) -> None:
    """Write a chunk as the claim leaves it that has asked for a batch."""
    ref, now = REF.chunk(number), rt.clock()
    assert mini.batch is not None
    prompt = f"{number} ".ljust(PROMPT, "x")
    known = ModelRequest("Answer.", (Turn("user", prompt),), ANSWER, model="gpt-5-mini")
    body, size = mini.batch.row_of(known)
    name = keys.sha256(str(number).encode())[:63]
    until = now + mini.lane.within
    request = Request(
        mini.batch.key,
        "mini",
        now,
        until,
        until + GRACE_S,
        1,
        {name: body.encode()},
        size,
    )
    await rt.objects.put(
        keys.request_key(ref.tenant, ref.job, number, 1, 1),
        request.content,
        "application/jsonl",
    )
    update = "SET #status = :status, blocked_on = :on, fence = :fence, retry_at = :at"
    values = {"status": "WAITING", "on": BATCH, "fence": 1, "at": iso(until)}
    write = rt.table.item_write("Update", ref.pk, ref.sk, update=update, values=values)
    reply = await rt.table.update(write)
    claim = Claim(ref, 1, 1, "token", "w1", Chunk.read(ref, reply.item or {}))
    for each in request_writes(rt.table, claim, 1, request, now):
        await rt.table.put(each)


class Counting(DynamoDB):
    """A table that counts its requests, by operation."""

    asked: Counter[str]

    def call(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Execute a request."""
        self.asked[operation] += 1
        return super().call(operation, request)


async def measure(rows: int) -> dict[str, Any]:
    """Return what a collector takes for so many rows."""
    settings = Settings()
    aws = InProcessAws(settings, settings.bucket(EMBEDDED_ACCOUNT, DEFAULT_REGION))
    names = settings.checkpoints_table, settings.dead_letters_table
    aws.dynamodb = table = Counting(aws.clock, tables=names)
    table.asked = Counter()
    stub = OpenAIStub(say=lambda _: "y" * ANSWER)
    async with serve_aws(aws, KEY) as endpoint, served(stub) as provider:
        os.environ[PROVIDER] = provider
        began = time.monotonic()
        rt = aws.runtime()
        await plant(rt, rows)
        sys.stderr.write(f"planted in {time.monotonic() - began:.0f} s\n")
        table.asked.clear()
        found = await run_collector(endpoint)
    found["requests"] = dict(table.asked.most_common())
    assert len(stub.book) == rows, len(stub.book)
    found["batches"] = [len(each.rows) for each in stub.batches.values()]
    found["requests_a_call"] = round(sum(found["requests"].values()) / rows, 2)
    return found


async def run_collector(endpoint: str) -> dict[str, Any]:
    """Run the collector in its process."""
    kept = {n: v for n, v in os.environ.items() if not n.startswith("AWS_")}
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "verification.batch_lane", "--collect"),
        stdout=asyncio.subprocess.PIPE,
        env={
            **kept,
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_DEFAULT_REGION": DEFAULT_REGION,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": KEY,
        },
    )
    told, _ = await child.communicate()
    found: dict[str, Any] = json.loads(told.splitlines()[-1])
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Measure; return whether a figure is too high."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--collect", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.collect:
        sys.stdout.write(json.dumps(asyncio.run(collect())) + "\n")
        return 0
    found = asyncio.run(measure(options.rows))
    requests = found.pop("requests")
    figures = " ".join(f"{name}={value}" for name, value in found.items())
    told = " ".join(f"{name}={count}" for name, count in requests.items())
    sys.stdout.write(f"rows={options.rows} {figures}\n{told}\n")
    return int(found["rss_mib"] > MOST_MIB or found["requests_a_call"] > MOST_REQUESTS)


if __name__ == "__main__":
    sys.exit(main())
