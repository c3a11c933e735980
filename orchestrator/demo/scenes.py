"""The scenes of the story: each does one step and reports it."""

from __future__ import annotations

import asyncio
import signal
import uuid
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from orchestrator.demo.children import ChildProcess
from orchestrator.demo.failure import DemoError
from orchestrator.demo.killing import WorkerKill, report_takeovers
from orchestrator.demo.machine import EXAMPLE, DemoProcesses
from orchestrator.demo.screen import Screen
from orchestrator.demo.watch import JobWatcher, Snapshot
from orchestrator.intake import chunk_inputs
from orchestrator.redrive import RedriveRequest, redrive
from orchestrator.submit import Submission, submit
from piecework.harvest import artifact_key
from piecework.loading import load_pipeline
from piecework.model import Job, JobRef, JobStatus
from piecework.pipeline import Pipeline
from piecework.runtime import Runtime
from piecework.store.dead_letters import DeadLetters

CONTRACT = "contracts/msa-northwind.md"
CALLS = "12 categories + 11 specialists + 3 to the add-in"
REASON = "a model with a larger context reads the clause"


async def submit_contract(rt: Runtime, screen: Screen) -> tuple[Job, Pipeline]:
    """Submit the contract, as `piecework submit` does."""
    pipeline = load_pipeline(f"{EXAMPLE}:pipeline")
    ref = JobRef(rt.settings.tenant, f"demo-{uuid.uuid4().hex[:8]}")
    with as_file(files(EXAMPLE) / CONTRACT) as path:
        submission = Submission(ref, pipeline, source=CONTRACT, submitted_by="demo")
        job, _ = await submit(rt, submission, chunk_inputs(str(path), pipeline))
    screen.print_line(
        "submit",
        f"{CONTRACT}   {job.chunks} chunks x {pipeline.calls_per_chunk} calls   "
        f"job {ref.job}",
    )
    screen.print_line("", f"({CALLS})")
    return job, pipeline


async def wait_for_job_end(
    watcher: JobWatcher, expected: JobStatus, kill: WorkerKill
) -> None:
    """Wait for the end of the job; report takeovers meanwhile."""

    def observe(snapshot: Snapshot) -> None:
        report_takeovers(watcher, kill, snapshot)

    snapshot = await watcher.wait_until(
        lambda snapshot: snapshot.job.status.ended, f"the job ends {expected}", observe
    )
    watcher.screen.hide_progress()
    outcomes = snapshot.job.item["outcomes"]
    totals = ", ".join(f"{count} {status}" for status, count in outcomes.items())
    watcher.screen.print_line(
        "job", f"{snapshot.job.status}   {totals}   of {snapshot.job.chunks} chunks"
    )


async def report_dead_letters(watcher: JobWatcher) -> list[dict[str, Any]]:
    """Report the open dead letters and the commands that show them.

    Raises:
        DemoError: There is no open dead letter.
    """
    rt, ref = watcher.rt, watcher.ref
    rows = DeadLetters(rt.dead_letters, rt.settings, rt.clock).of_job(ref)
    letters = [row async for row in rows if row["state"] == "OPEN"]
    for row in letters:
        watcher.screen.print_line(
            "dead",
            f"chunk {row['chunk']} ({row['label']}): {row['error_code']} in "
            f"{row['stage']}, attempt {row['attempts']}",
        )
        command = f"piecework dlq show {ref.job} {row['chunk']}"
        watcher.screen.print_line("", f"you would type: {command}")
    if not letters:
        message = "the clause that is too long was not dead-lettered"
        raise DemoError(message)
    return letters


async def restart_workers(watcher: JobWatcher, model: str) -> None:
    """Replace the workers by workers that use a model with a larger context."""
    old = watcher.processes.active_workers
    watcher.screen.print_line("fix", f"workers restarted with REVIEW_MODEL_ID={model}")
    for _ in old:
        watcher.processes.start_worker(model)
    await stop_workers(watcher.processes, old)


async def stop_all_workers(watcher: JobWatcher) -> None:
    """Stop all workers."""
    await stop_workers(watcher.processes, watcher.processes.active_workers)


async def stop_workers(
    processes: DemoProcesses, workers: Sequence[ChildProcess]
) -> None:
    """Stop workers with SIGTERM, as a deployment does."""
    processes.stopped.update(worker.name for worker in workers)
    for worker in workers:
        worker.signal(signal.SIGTERM)
    await asyncio.gather(*(worker.wait_until_exited() for worker in workers))


async def redrive_all(watcher: JobWatcher, letters: Sequence[dict[str, Any]]) -> None:
    """Redrive the dead letters, as `piecework dlq redrive` does."""
    request = RedriveRequest(watcher.ref, letters, actor="demo", reason=REASON)
    count, gen = await redrive(watcher.rt, request)
    watcher.screen.print_line(
        "redrive",
        f"{count} dead letter, as generation {gen}; completed stages do not run again",
    )
    watcher.screen.print_line(
        "",
        f"you would type: piecework dlq redrive --job {watcher.ref.job} --yes "
        '--reason "..."',
    )


async def save_results(rt: Runtime, ref: JobRef, out: Path, screen: Screen) -> None:
    """Save report and certificate to the output folder."""
    job = await rt.jobs.read(ref)
    certificate = str(job.item.get("certificate", "")) if job else ""
    wanted = {
        "report.md": artifact_key(ref, "report.md"),
        "report.html": artifact_key(ref, "report.html"),
        "certificate.json": certificate,
    }
    for name, key in wanted.items():
        (out / name).write_bytes(await rt.objects.get(key))
    screen.print_line("report", "   ".join(str(out / name) for name in wanted))
