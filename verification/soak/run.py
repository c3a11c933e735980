"""Run a soak from the first process to the last count."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from piecework.runtime import connect
from piecework_orchestrator.demo.processes import isolated_environ
from verification.soak import microburst
from verification.soak.actors import Actors, gather
from verification.soak.ledger import FOR_AN_OPERATOR
from verification.soak.plan import Plan
from verification.soak.site import started
from verification.soak.tables import Accounts, account

#: Seconds that a call of the outside world takes, on average.
LATENCY_S = 0.25
#: Every job must end so many seconds after the last submit. A submit left to the
#: reconciler, three attempts with their waits and a recovery claim take less.
ENDED_WITHIN_S = 180.0
#: A reconciler without a job reads the queue at least so often.
EMPTY_WITHIN_S = 30.0
REDRIVEN_AT_ONCE = 3
REPORT_EVERY_S = 10.0
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Course:
    """The outcome of a run, for the judges."""

    actors: Actors
    accounts: Accounts
    requests: int
    faults: Counter[str]
    left_in_dead_letter_queue: int
    seconds: float


async def run(plan: Plan, folder: Path, say: Callable[[str], None]) -> Course:
    """Let everything happen that is planned, and count the results."""
    began = time.monotonic()
    with started(plan, folder, LATENCY_S) as site:
        actors = gather(plan, site)
        microburst.enable(site.faults)
        try:
            await play(plan, actors, say)
        finally:
            actors.note_disruptions()
        requests, faults = microburst.counted(site.faults)
        await actors.changes.catch_up()
        with isolated_environ(site.calm):
            async with connect(actors.settings) as rt:
                names = [job.name for job in plan.jobs()]
                accounts = await account(rt, names, plan.chunks)
        left = actors.left_in_dead_letter_queue()
        seconds = time.monotonic() - began
        return Course(actors, accounts, requests, faults, left, seconds)


async def play(plan: Plan, actors: Actors, say: Callable[[str], None]) -> None:
    """Let the actors act, until all work is done; then let the workers stop."""
    fleet, changes = actors.fleet, actors.changes
    async with asyncio.TaskGroup() as group:
        beside = [
            group.create_task(changes.follow()),
            group.create_task(fleet.keep_up()),
            group.create_task(report(plan, actors, say)),
        ]
        fleet.begin()
        try:
            await work(plan, actors, say)
        finally:
            for task in beside:
                task.cancel()
            await fleet.end()


async def work(plan: Plan, actors: Actors, say: Callable[[str], None]) -> None:
    """Submit and kill; wait for the end; fix what can be fixed; wait again."""
    names = [job.name for job in plan.jobs()]
    async with asyncio.TaskGroup() as group:
        group.create_task(actors.traffic.submit_all())
        group.create_task(actors.killer.run())
    await ended(actors, names)
    say("what failed for good is fixed, and redriven")
    actors.site.fix()
    async with asyncio.TaskGroup() as group:
        turn = asyncio.Semaphore(REDRIVEN_AT_ONCE)
        for name in names:
            group.create_task(redrive(name, actors, turn))
    await actors.changes.catch_up()
    await ended(actors, names)
    await dead_letter_queue_empty(actors)


async def redrive(job: str, actors: Actors, turn: asyncio.Semaphore) -> None:
    """Redrive the dead chunks of a job, but for those that a person has to look at."""
    chunks, jobs = actors.changes.chunks, actors.changes.jobs
    dead = [
        number
        for number, item in chunks[job].items()
        if item["status"] == "DEAD" and item["compensation"] not in FOR_AN_OPERATOR
    ]
    if dead and jobs[job]["status"] in {"PARTIAL", "FAILED"}:
        words = [word for number in dead for word in ("--chunk", str(number))]
        async with turn:
            fixed = ("--reason", "fixed", "--yes")
            await actors.traffic.command("dlq", "redrive", "--job", job, *words, *fixed)


async def ended(actors: Actors, names: list[str]) -> None:
    """Wait until every job has ended, within reason: the judges see to the rest."""
    with suppress(TimeoutError):
        async with asyncio.timeout(ENDED_WITHIN_S):
            while not actors.changes.ended(names):  # noqa: ASYNC110 -- the stream
                await asyncio.sleep(POLL_S)


async def dead_letter_queue_empty(actors: Actors) -> None:
    """Wait until the reconcilers have emptied the dead-letter queue."""
    until = time.monotonic() + EMPTY_WITHIN_S
    while await asyncio.to_thread(actors.left_in_dead_letter_queue):
        if time.monotonic() > until:
            return
        await asyncio.sleep(1)


async def report(plan: Plan, actors: Actors, say: Callable[[str], None]) -> None:
    """Print the progress at intervals."""
    while True:
        await asyncio.sleep(REPORT_EVERY_S)
        say(
            f"{len(actors.changes.ended_once)} of {plan.chunks} chunks have ended; "
            f"{len(actors.fleet.deaths)} workers killed; "
            f"jobs: {dict(actors.changes.statuses())}"
        )
