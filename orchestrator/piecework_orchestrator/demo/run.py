"""Run the demo and always clean up."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from random import Random
from typing import TextIO

from aiohttp import ClientSession

from piecework.domain import keys
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.job import Job
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.errors import UsageError
from piecework.loading import load_pipeline
from piecework.pipelines import Pipeline
from piecework.runtime import Runtime, connect
from piecework.settings import load_settings
from piecework.store.dead_letters import DeadLetters
from piecework_orchestrator.dead_letters.redrive import RedriveRequest, redrive
from piecework_orchestrator.demo.check import (
    Counts,
    count_results,
    failed_checks,
    report_counts,
    summary_line,
)
from piecework_orchestrator.demo.processes import (
    EXAMPLE,
    FAULT_RATE,
    LARGE_MODEL,
    SMALL_MODEL,
    ChildProcess,
    DemoError,
    DemoProcesses,
    ServiceLedgers,
    running,
)
from piecework_orchestrator.demo.screen import Screen, open_screen
from piecework_orchestrator.demo.watch import (
    JobWatcher,
    Logs,
    Snapshot,
    WorkerKill,
    kill_one,
    report_takeovers,
)
from piecework_orchestrator.embedded.server import refuse_remote
from piecework_orchestrator.submit.intake.source import chunk_inputs
from piecework_orchestrator.submit.submit import Submission, submit

INTERRUPTED = 130
#: Each clause is scored in so many categories, and read by so many specialists.
CATEGORIES, SPECIALISTS = 12, 11
MIN_CALLS = CATEGORIES + SPECIALISTS


async def run_demo(
    *,
    seed: int = 42,
    keep: bool = False,
    calls: int = MIN_CALLS,
    out: Path = Path("out"),
    stream: TextIO | None = None,
) -> int:
    """Run the demo; return 0 if the counted results keep every promise.

    Args:
        seed: Selects the failing calls and the killed worker.
        keep: Leave the embedded AWS running, with all records of the job.
        calls: The calls of the model for each chunk.
        out: The folder for the report and the certificate.
        stream: The output stream; the default is standard output.

    Raises:
        UsageError: `embedded.endpoint.not_loopback`; a folder cannot be written to.
        UnreachableError: The embedded AWS could not be installed or started.
    """
    refuse_remote(os.environ)
    folder = make_folders(out)
    screen = open_screen(stream or sys.stdout)
    problems, figures = ["the demo did not finish"], ""
    try:
        with cancelled_on_signals() as stopped:
            counts = await run_with_processes(
                folder, screen, seed, keep=keep, calls=calls, out=out
            )
        problems, figures = failed_checks(counts), summary_line(counts)
    except DemoError as error:
        problems = [str(error)]
    except asyncio.CancelledError:
        problems = []  # the user stopped it, so no logs are needed
        if not stopped:
            raise
        return INTERRUPTED
    finally:
        clean_up(folder, screen, problems, keep=keep)
    for promise in problems:
        screen.print_line("failed", promise)
    if figures:
        screen.print_figures(figures)
    return 1 if problems else 0


async def run_with_processes(
    folder: Path, screen: Screen, seed: int, *, keep: bool, calls: int, out: Path
) -> Counts:
    """Start the processes and run the story."""
    try:
        with running(folder, seed, keep=keep, calls=calls) as processes:
            return await run_story(processes, screen, seed, calls, out)
    finally:
        screen.hide_progress()


def make_folders(out: Path) -> Path:
    """Create the folder for the results; return a new folder for state and logs."""
    state = Path.cwd() / ".piecework"
    try:
        out.mkdir(parents=True, exist_ok=True)
        state.mkdir(exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="demo-", dir=state))
    except OSError as error:
        message = f"{error.filename} cannot be written to: {error.strerror}."
        step = "Run the demo in a writable folder, or pass another `--out`."
        raise UsageError(message, next_step=step) from error


@contextmanager
def cancelled_on_signals() -> Iterator[list[int]]:
    """Let SIGTERM and SIGHUP stop the demo like Ctrl-C; yield the received signals."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    received: list[int] = []

    def stop(number: int) -> None:
        received.append(number)
        if task is not None:
            task.cancel()

    numbers = (signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, stop, number)
    try:
        yield received
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def clean_up(folder: Path, screen: Screen, problems: list[str], *, keep: bool) -> None:
    """Remove the folder, or report where it is and how to use it."""
    if keep:
        where = f"PIECEWORK_STATE_DIR={folder}"
        screen.print_line("kept", f"{where} piecework jobs list")
        screen.print_line("", f"{where} piecework down    # stops it")
    elif problems:
        screen.print_line("logs", str(folder))
    else:
        shutil.rmtree(folder, ignore_errors=True)


# ── lines before and after the story ──────────────────────────────────────────


def report_environment(processes: DemoProcesses, screen: Screen) -> None:
    """Report the environment of the demo."""
    screen.print_line("demo", "a contract is reviewed, and not everything goes well")
    emulator = processes.emulator
    screen.print_line(
        "doctor",
        f"python {platform.python_version()} ok   MiniStack {emulator.version} "
        f"at {emulator.endpoint} ok",
    )
    screen.print_line(
        "",
        f"model: Bedrock stub at {processes.urls['bedrock']}   no AWS credentials used",
    )


def report_faults(screen: Screen, seed: int) -> None:
    """Report the faults that the demo injects."""
    screen.print_line(
        "faults",
        f"{FAULT_RATE:.0%} of calls fail: 429, 503, a truncated answer or none; "
        f"1 of 3 workers is killed during a chunk; clause 17 is too long   seed {seed}",
    )


def report_next_steps(screen: Screen) -> None:
    """Report what to type next; first of all, how to get the command."""
    screen.print_line("", "")
    screen.print_line("next", "read the tables of a demo that stays:")
    for line in (*activation(), "piecework demo --seed 7 --keep"):
        screen.print_line("", f"  {line}")
    screen.print_line(
        "", "or start a worker, and submit your contract in another terminal:"
    )
    for line in (
        "piecework up",
        f"piecework worker --pipelines {EXAMPLE}",
        f"piecework submit {EXAMPLE}:pipeline YOUR_CONTRACT.docx --wait",
    ):
        screen.print_line("", f"  {line}")
    screen.print_line("", "")


def activation() -> Iterator[str]:
    """Yield the line that puts this environment's command on the path, if needed."""
    script = Path(sys.executable).with_name("activate")
    found = shutil.which("piecework")
    if script.exists() and (found is None or Path(found).parent != script.parent):
        inside = script.is_relative_to(Path.cwd())
        yield f". {script.relative_to(Path.cwd()) if inside else script}"


# ── scenes of the story ───────────────────────────────────────────────────────

CONTRACT = "contracts/msa-northwind.md"
REASON = "a model with a larger context reads the clause"


async def submit_contract(
    rt: Runtime, screen: Screen, calls: int
) -> tuple[Job, Pipeline]:
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
    screen.print_line("", f"({describe_calls(calls)})")
    return job, pipeline


def describe_calls(calls: int) -> str:
    """Return what the calls of a chunk are for."""
    readings = calls - CATEGORIES
    specialists = f"{SPECIALISTS} specialists"
    if readings > SPECIALISTS:
        specialists = f"{readings} readings by {specialists}"
    return f"{CATEGORIES} categories + {specialists} + 3 to the add-in"


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
    outcomes = snapshot.job.outcomes or {}
    totals = ", ".join(f"{count} {status}" for status, count in outcomes.items())
    watcher.screen.print_line(
        "job", f"{snapshot.job.status}   {totals}   of {snapshot.job.chunks} chunks"
    )


async def report_dead_letters(watcher: JobWatcher) -> list[DeadLetterRow]:
    """Report the open dead letters and the commands that show them.

    Raises:
        DemoError: There is no open dead letter.
    """
    rt, ref = watcher.rt, watcher.ref
    rows = DeadLetters(rt.dead_letters, rt.settings, rt.clock).of_job(ref)
    letters = [row async for row in rows if row.state == "OPEN"]
    for row in letters:
        watcher.screen.print_line(
            "dead",
            f"chunk {row.chunk} ({row.label}): {row.error_code} in "
            f"{row.stage}, attempt {row.attempts}",
        )
        command = f"piecework dlq show {ref.job} {row.chunk}"
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


async def redrive_all(watcher: JobWatcher, letters: Sequence[DeadLetterRow]) -> None:
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
    certificate = job.certificate if job else ""
    wanted = {
        "report.md": keys.artifact_key(ref.tenant, ref.job, "report.md"),
        "report.html": keys.artifact_key(ref.tenant, ref.job, "report.html"),
        "certificate.json": certificate,
    }
    for name, key in wanted.items():
        (out / name).write_bytes(await rt.objects.get(key))
    screen.print_line("report", "   ".join(str(out / name) for name in wanted))


# ── run the scenes of the story in order ──────────────────────────────────────

WORKERS = 3


async def run_story(
    processes: DemoProcesses, screen: Screen, seed: int, calls: int, out: Path
) -> Counts:
    """Run the whole story; return the counted results.

    Raises:
        DemoError: A step of the demo failed.
    """
    await processes.listen()
    async with connect(load_settings()) as rt, ClientSession() as http:
        report_environment(processes, screen)
        first = [processes.start_worker(SMALL_MODEL) for _ in range(WORKERS)]
        job, pipeline = await submit_contract(rt, screen, calls)
        report_faults(screen, seed)
        watcher = JobWatcher(
            rt=rt,
            processes=processes,
            ledgers=ServiceLedgers(http, processes.urls),
            logs=Logs(processes.folder),
            screen=screen,
            ref=job.ref,
            calls_per_chunk=pipeline.calls_per_chunk or 1,
        )
        kill = await kill_one(watcher, first, Random(seed))
        await wait_for_job_end(watcher, JobStatus.PARTIAL, kill)
        letters = await report_dead_letters(watcher)
        await restart_workers(watcher, LARGE_MODEL)
        await redrive_all(watcher, letters)
        await wait_for_job_end(watcher, JobStatus.SUCCEEDED, kill)
        await stop_all_workers(watcher)
        screen.hide_progress()
        await save_results(rt, job.ref, out, screen)
        counts = await count_results(watcher, kill)
        report_counts(counts, watcher, kill)
        report_next_steps(screen)
    return counts
