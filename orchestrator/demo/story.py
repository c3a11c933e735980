"""Run the scenes of the story in order."""

from __future__ import annotations

from pathlib import Path
from random import Random

from aiohttp import ClientSession

from orchestrator.demo import remarks, scenes
from orchestrator.demo.books import ServiceLedgers
from orchestrator.demo.count import count_results, report_counts
from orchestrator.demo.killing import kill_one
from orchestrator.demo.logs import Logs
from orchestrator.demo.machine import LARGE_MODEL, SMALL_MODEL, DemoProcesses
from orchestrator.demo.screen import Screen
from orchestrator.demo.verdict import Counts
from orchestrator.demo.watch import JobWatcher
from piecework.model import JobStatus
from piecework.runtime import connect
from piecework.settings import load_settings

WORKERS = 3


async def run_story(
    processes: DemoProcesses, screen: Screen, seed: int, out: Path
) -> Counts:
    """Run the whole story; return the counted results.

    Raises:
        DemoError: A step of the demo failed.
    """
    await processes.listen()
    async with connect(load_settings()) as rt, ClientSession() as http:
        remarks.report_environment(processes, screen)
        first = [processes.start_worker(SMALL_MODEL) for _ in range(WORKERS)]
        job, pipeline = await scenes.submit_contract(rt, screen)
        remarks.report_faults(screen, seed)
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
        await scenes.wait_for_job_end(watcher, JobStatus.PARTIAL, kill)
        letters = await scenes.report_dead_letters(watcher)
        await scenes.restart_workers(watcher, LARGE_MODEL)
        await scenes.redrive_all(watcher, letters)
        await scenes.wait_for_job_end(watcher, JobStatus.SUCCEEDED, kill)
        await scenes.stop_all_workers(watcher)
        screen.hide_progress()
        await scenes.save_results(rt, job.ref, out, screen)
        counts = await count_results(watcher, kill)
        report_counts(counts, watcher, kill)
        remarks.report_next_steps(screen)
    return counts
