"""The scenes of the story: what is done in each, and what is said of it."""

from __future__ import annotations

import asyncio
import platform
import signal
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from random import Random
from typing import Any

from orchestrator.demo.children import Child
from orchestrator.demo.machine import EXAMPLE, FAULT_RATE, Machine
from orchestrator.demo.screen import Screen
from orchestrator.demo.takeover import Held, Takeover, choose, in_hand, taken_over
from orchestrator.demo.watch import Look, Watch
from orchestrator.intake import chunk_inputs
from orchestrator.redrive import Redrive, redrive
from orchestrator.submit import Submission, submit
from piecework.harvest import artifact_key
from piecework.loading import load_pipeline
from piecework.model import Job, JobRef, JobStatus
from piecework.pipeline import Pipeline
from piecework.runtime import Runtime
from piecework.store.dead_letters import DeadLetters

CONTRACT = "contracts/msa-northwind.md"
CALLS = "12 categories + 11 specialists + 3 to the add-in"
#: Chunks that have ended before a worker is killed, so that the job is in full swing,
#: and after which the choice of the worker gets less particular.
IN_SWING, LATE = 4, 9
REASON = "a model with a larger context reads the clause"


@dataclass(slots=True)
class Death:
    """A killed worker, the chunks that it had in hand, and who has them now.

    Attributes:
        paid_twice: Calls that the model had answered twice by then.
    """

    worker: Child
    at: float
    paid_twice: int
    held: list[Held]
    takeovers: list[Takeover] = field(default_factory=list)

    @property
    def waiting(self) -> list[Held]:
        """The chunks that nobody has taken over yet."""
        done = {takeover.held for takeover in self.takeovers}
        return [held for held in self.held if held not in done]


def tell_doctor(machine: Machine, screen: Screen) -> None:
    """Say what the demo runs on."""
    emulator = machine.emulator
    screen.say(
        "doctor",
        f"python {platform.python_version()} ok   MiniStack {emulator.version} "
        f"at {emulator.endpoint} ok",
    )
    screen.say(
        "",
        f"model: Bedrock stub at {machine.urls['bedrock']}   no AWS credentials used",
    )


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


def tell_faults(screen: Screen, seed: int) -> None:
    """Say what will go wrong."""
    screen.say(
        "faults",
        f"{FAULT_RATE:.0%} of calls answer 429 or 503, come cut off or never, "
        f"1 of 3 workers is killed in mid-chunk, 1 poison clause (17)   seed {seed}",
    )


async def kill_one(watch: Watch, workers: Sequence[Child], rng: Random) -> Death:
    """Kill a worker with SIGKILL while the table says that it is in mid-chunk.

    It is frozen first, so that what the table says still holds when it is killed.
    """
    while True:
        look = await watch.until(
            lambda look: look.ended >= IN_SWING, "chunks end, so that one may be killed"
        )
        pids = [worker.pid for worker in workers]
        pid = choose(look.chunks, pids, rng, pick=look.ended < LATE)
        worker = next((worker for worker in workers if worker.pid == pid), None)
        if worker is not None:
            worker.signal(signal.SIGSTOP)
            frozen = await watch.look()
            if choose(frozen.chunks, [worker.pid], rng, pick=False):
                break
            worker.signal(signal.SIGCONT)
        await asyncio.sleep(0)
    watch.machine.dismissed.add(worker.name)
    worker.signal(signal.SIGKILL)
    at = watch.rt.clock()
    await worker.gone()
    # What it had sent before may still have been written: so the table is asked again.
    look = await watch.look()
    held = in_hand(look.chunks, worker.pid)
    said = ", ".join(f"{h.chunk} ({h.stage})" for h in held)
    watch.screen.say(
        "kill",
        f"SIGKILL to {worker.name} (pid {worker.pid}) with chunks in hand: {said}",
    )
    return Death(worker, at, look.model.answered_twice, held)


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


def tell_takeovers(watch: Watch, death: Death, look: Look) -> None:
    """Tell which chunks of the dead worker others have claimed since the last look."""
    fresh = taken_over(death.waiting, look.chunks, look.at - death.at)
    for takeover in fresh:
        held = takeover.held
        by = takeover.by or watch.logs.claimed.get((held.chunk, held.fence + 1), "")
        watch.screen.say(
            "takeover",
            f"chunk {held.chunk}: {death.worker.name} -> "
            f"{watch.machine.name_of(by) or 'another'} after {takeover.seconds:.1f} s, "
            f"goes on in {held.stage}",
        )
    death.takeovers += fresh


async def tell_dead_letters(watch: Watch) -> list[dict[str, Any]]:
    """Show the open dead letters, and what a person would type to see them."""
    rt, ref = watch.rt, watch.ref
    rows = DeadLetters(rt.dead_letters, rt.settings, rt.clock).of_job(ref)
    letters = [row async for row in rows if row["letter_state"] == "OPEN"]
    for row in letters:
        watch.screen.say(
            "dead",
            f"chunk {row['chunk']} ({row['label']}): {row['error_code']} in "
            f"{row['stage']}, attempt {row['attempts']}",
        )
    watch.screen.say("", f"you would type: piecework dlq list --job {ref.job}")
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
    asked = Redrive(watch.ref, letters, actor="demo", reason=REASON)
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


def tell_what_next(screen: Screen) -> None:
    """Name three things to try."""
    screen.say("", "")
    screen.say("try", "piecework demo --seed 7 --keep      then look into the tables")
    screen.say(
        "",
        "piecework up; piecework-worker --pipelines examples.contract_review   "
        "and kill it yourself",
    )
    screen.say(
        "",
        "piecework submit examples.contract_review:pipeline YOUR_CONTRACT.docx --wait",
    )
    screen.say("", "")
