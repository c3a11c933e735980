"""The story in its order: a scene is one function."""

from __future__ import annotations

from pathlib import Path
from random import Random

from aiohttp import ClientSession

from orchestrator.demo import remarks, scenes
from orchestrator.demo.books import Books
from orchestrator.demo.count import count, tell_counts
from orchestrator.demo.killing import kill_one
from orchestrator.demo.logs import Logs
from orchestrator.demo.machine import LARGE_MODEL, SMALL_MODEL, Machine
from orchestrator.demo.screen import Screen
from orchestrator.demo.verdict import Counts
from orchestrator.demo.watch import Watch
from piecework.model import JobStatus
from piecework.runtime import connect
from piecework.settings import load_settings

WORKERS = 3


async def tell(machine: Machine, screen: Screen, seed: int, out: Path) -> Counts:
    """Tell the whole story; return what it came to.

    Raises:
        StoryError: Something did not come about at all.
    """
    await machine.listen()
    async with connect(load_settings()) as rt, ClientSession() as http:
        remarks.tell_doctor(machine, screen)
        first = [machine.start_worker(SMALL_MODEL) for _ in range(WORKERS)]
        job, pipeline = await scenes.hand_in(rt, screen)
        remarks.tell_faults(screen, seed)
        watch = Watch(
            rt=rt,
            machine=machine,
            books=Books(http, machine.urls),
            logs=Logs(machine.folder),
            screen=screen,
            ref=job.ref,
            calls_per_chunk=pipeline.calls_per_chunk or 1,
        )
        death = await kill_one(watch, first, Random(seed))
        await scenes.end_of_job(watch, JobStatus.PARTIAL, death)
        letters = await scenes.tell_dead_letters(watch)
        await scenes.fix(watch, LARGE_MODEL)
        await scenes.redrive_all(watch, letters)
        await scenes.end_of_job(watch, JobStatus.SUCCEEDED, death)
        await scenes.dismiss(watch)
        screen.rest()
        await scenes.save(rt, job.ref, out, screen)
        counts = await count(watch, death)
        tell_counts(counts, watch, death)
        remarks.tell_what_next(screen)
    return counts
