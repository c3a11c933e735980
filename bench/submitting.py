"""Submit a manifest through the product, and print its cost.

Runs in a process of its own: python -m bench.submitting PIPELINE FILE.jsonl JOB
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from bench import pipelines
from bench.processes import peak_rss_mb
from piecework.domain.refs import JobRef
from piecework.runtime import connect
from piecework.settings import load_settings
from piecework_orchestrator.submit.intake.source import chunk_inputs
from piecework_orchestrator.submit.submit import Submission, submit


async def main(name: str, path: str, *jobs: str) -> None:
    """Submit the manifest once under each job id."""
    pipeline = getattr(pipelines, name)
    async with connect(load_settings()) as rt:
        before, began = time.process_time(), time.monotonic()
        count = 0
        for job in jobs:
            ref = JobRef(rt.settings.tenant, job)
            asked = Submission(ref, pipeline, path, "bench")
            chunks = chunk_inputs(path, pipeline, s3=rt.objects.client)
            submitted, _ = await submit(rt, asked, chunks)
            count += submitted.chunks
        ended = time.monotonic()
        cpu = time.process_time() - before
    said = {"submitted": count, "seconds": ended - began, "ended": ended, "cpu": cpu}
    said["rss_mb"] = peak_rss_mb("self")
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
