"""A deployment on the embedded AWS, a job on it, and a true worker process."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from piecework.domain.job import Job
from piecework.domain.refs import JobRef
from piecework.pipelines import Pipeline
from piecework.runtime import Runtime, connect
from piecework.settings import load_settings
from piecework_orchestrator.embedded import deploy
from piecework_orchestrator.embedded.deploy import ACCESS_KEY
from piecework_orchestrator.submit.submit import Submission, submit
from tests.own_emulator import own_emulator
from tests.scenarios.conftest import read_inputs

ROOT = Path(__file__).parents[2]
#: Short, so that all is over in seconds; few attempts, for each one fails alike.
SHORT = {
    "PIECEWORK_LEASE_S": "2",
    "PIECEWORK_VISIBILITY_S": "3",
    "PIECEWORK_CLOCK_SKEW_S": "0.2",
    "PIECEWORK_RECONCILE_S": "0.5",
    "PIECEWORK_RECEIVE_WAIT_S": "1",
    "PIECEWORK_SHUTDOWN_GRACE_S": "0.5",
    "PIECEWORK_MAX_ATTEMPTS": "2",
}


@asynccontextmanager
async def deployed() -> AsyncIterator[Runtime]:
    """Run an embedded AWS of our own, for a process that is not a test."""
    with own_emulator() as running:
        deploy.deploy_embedded(running, "piecework", "security")
        os.environ |= SHORT | {
            "PIECEWORK_ENV": "security",
            "AWS_ENDPOINT_URL": running.endpoint,
            "AWS_DEFAULT_REGION": running.region,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": ACCESS_KEY,
        }
        async with connect(load_settings()) as rt:
            yield rt


async def started(
    rt: Runtime, ref: JobRef, pipeline: Pipeline, payloads: Sequence[BaseModel]
) -> None:
    """Submit a job."""
    inputs = read_inputs(pipeline, payloads)
    await submit(rt, Submission(ref, pipeline, "security", "tester"), inputs)


@dataclass
class Finished:
    """What a worker process said, and the memory it took at its largest."""

    stdout: str = ""
    stderr: str = ""
    peak_mb: float = 0.0


@asynccontextmanager
async def worker(
    modules: Sequence[str], more: Mapping[str, str]
) -> AsyncIterator[Finished]:
    """Run a true worker process; what it said is there after the block."""
    finished = Finished()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "piecework_worker",
            *(word for module in modules for word in ("--pipelines", module)),
            cwd=ROOT,
            stdout=out,
            stderr=err,
            env={**os.environ, "PIECEWORK_LOG_LEVEL": "debug", **more},
        )
        try:
            yield finished
            finished.peak_mb = peak_mb(process.pid)
            process.terminate()
            await asyncio.wait_for(process.wait(), 30)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        for stream, name in ((out, "stdout"), (err, "stderr")):
            stream.seek(0)
            setattr(finished, name, stream.read().decode(errors="replace"))


def peak_mb(pid: int) -> float:
    """Return the largest resident size of a process so far; 0 if it is unknown."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return 0.0
    lines = status.read_text().splitlines()
    high = next(line for line in lines if line.startswith("VmHWM:"))
    return int(high.split()[1]) / 1024


async def ended(rt: Runtime, ref: JobRef, within: float = 60) -> Job:
    """Wait until a job has ended."""
    async with asyncio.timeout(within):
        while True:
            job = await rt.jobs.read(ref)
            if job is not None and job.status.ended:
                return job
            await asyncio.sleep(0.1)
