"""The scenes of the story: what is done in each, and what is said of it."""

from __future__ import annotations

import asyncio
import signal
import uuid
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from orchestrator.demo.children import Child
from orchestrator.demo.failure import StoryError
from orchestrator.demo.killing import Death, tell_takeovers
from orchestrator.demo.machine import EXAMPLE, Machine
from orchestrator.demo.screen import Screen
from orchestrator.demo.watch import Look, Watch
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


async def hand_in(rt: Runtime, screen: Screen) -> tuple[Job, Pipeline]:
    """Submit the contract, as `piecework submit` does."""
    pipeline = load_pipeline(f"{EXAMPLE}:pipeline")
    ref = JobRef(rt.settings.tenant, f"demo-{uuid.uuid4().hex[:8]}")
    with as_file(files(EXAMPLE) / CONTRACT) as path:
        submission = Submission(ref, pipeline, source=CONTRACT, submitted_by="demo")
        job, _ = await submit(rt, submission, chunk_inputs(str(path), pipeline))
    screen.say(
        "submit",
        f"{CONTRACT}   {job.chunks} chunks x {pipeline.calls_per_chunk} calls   "
        f"job {ref.job}",
    )
    screen.say("", f"({CALLS})")
    return job, pipeline


async def end_of_job(watch: Watch, expected: JobStatus, death: Death) -> None:
    """Wait for the end of the job, and tell of takeovers on the way."""

    def notice(look: Look) -> None:
        tell_takeovers(watch, death, look)

    look = await watch.until(
        lambda look: look.job.status.ended, f"the job ends {expected}", notice
    )
    watch.screen.rest()
    outcomes = look.job.item["outcomes"]
    said = ", ".join(f"{count} {status}" for status, count in outcomes.items())
    watch.screen.say("job", f"{look.job.status}   {said}   of {look.job.chunks} chunks")


async def tell_dead_letters(watch: Watch) -> list[dict[str, Any]]:
    """Show the open dead letters, and what a person would type to see them.

    Raises:
        StoryError: There is none.
    """
    rt, ref = watch.rt, watch.ref
    rows = DeadLetters(rt.dead_letters, rt.settings, rt.clock).of_job(ref)
    letters = [row async for row in rows if row["state"] == "OPEN"]
    for row in letters:
        watch.screen.say(
            "dead",
            f"chunk {row['chunk']} ({row['label']}): {row['error_code']} in "
            f"{row['stage']}, attempt {row['attempts']}",
        )
        command = f"piecework dlq show {ref.job} {row['chunk']}"
        watch.screen.say("", f"you would type: {command}")
    if not letters:
        message = "the poison clause left no dead letter"
        raise StoryError(message)
    return letters


async def fix(watch: Watch, model: str) -> None:
    """Replace the workers by some that use a model with a larger context."""
    old = watch.machine.at_work
    watch.screen.say("fix", f"workers restarted with REVIEW_MODEL_ID={model}")
    for _ in old:
        watch.machine.start_worker(model)
    await stop(watch.machine, old)


async def dismiss(watch: Watch) -> None:
    """Stop all workers."""
    await stop(watch.machine, watch.machine.at_work)


async def stop(machine: Machine, workers: Sequence[Child]) -> None:
    """Stop workers as a deployment would, with SIGTERM."""
    machine.dismissed.update(worker.name for worker in workers)
    for worker in workers:
        worker.signal(signal.SIGTERM)
    await asyncio.gather(*(worker.gone() for worker in workers))


async def redrive_all(watch: Watch, letters: Sequence[dict[str, Any]]) -> None:
    """Redrive the dead letters, as `piecework dlq redrive` does."""
    asked = RedriveRequest(watch.ref, letters, actor="demo", reason=REASON)
    count, gen = await redrive(watch.rt, asked)
    watch.screen.say(
        "redrive", f"{count} dead letter, as generation {gen}; what is done stays done"
    )
    watch.screen.say(
        "",
        f"you would type: piecework dlq redrive --job {watch.ref.job} --yes "
        '--reason "..."',
    )


async def save(rt: Runtime, ref: JobRef, out: Path, screen: Screen) -> None:
    """Save what the job has made."""
    job = await rt.jobs.read(ref)
    certificate = str(job.item.get("certificate", "")) if job else ""
    wanted = {
        "report.md": artifact_key(ref, "report.md"),
        "report.html": artifact_key(ref, "report.html"),
        "certificate.json": certificate,
    }
    for name, key in wanted.items():
        (out / name).write_bytes(await rt.objects.get(key))
    screen.say("report", "   ".join(str(out / name) for name in wanted))
