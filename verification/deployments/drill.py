"""Deploy version 2 of every pipeline of the table over jobs of version 1.

A job has a chunk for each moment. Version 1 runs each chunk up to its moment, and ends.
Version 2 goes on. Nothing is judged here: a run is what was left of a chunk.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from piecework.domain.chunk import Chunk
from piecework.domain.chunk_input import ChunkInput
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.keys import JOIN_CHUNK
from piecework.domain.outcome import CHANGED_CODE, NO_STAGE_CODE
from piecework.domain.refs import JobRef
from piecework.loading import load_pipeline
from piecework.pipelines import Pipeline
from piecework.store.completion import all_chunks, read_chunk
from piecework.store.dead_letters import DeadLetters
from piecework_orchestrator.reading.job_documents import Document, explain, require_job
from piecework_orchestrator.submit.submit import Submission, submit
from verification.deployments.changes import Deployment
from verification.deployments.fleet import Fleet, world

#: Seconds for the first phase, and for the second.
REACH_S, SETTLE_S = 240.0, 900.0
POLL_S: Final = 1.0
#: How often a chunk between two versions is stopped before it counts as stopped: the
#: other version has mostly had it by then.
STOPS: Final = 2
#: Seconds after which a job whose pipeline no worker has is left alone.
IGNORED_S: Final = 15.0


class End(StrEnum):
    """How version 1 ends."""

    KILLED = "SIGKILL"
    STOPPED = "SIGTERM"
    STAYS = "stays beside"


@dataclass(frozen=True, slots=True)
class Run:
    """The outcome of a chunk, or of the join, of a row.

    Attributes:
        moment: The moment at which version 1 ended; `join`: it is the join.
        acts: How often each act was executed for it.
        by_version: The same, with the version that asked for it.
        findings: The codes of the findings about its job.
    """

    row: Deployment
    end: End
    moment: str
    chunk: Chunk | None
    letter: DeadLetterRow | None
    acts: Counter[str]
    by_version: Counter[str]
    findings: Sequence[str]


async def drill(folder: Path, found: Sequence[Deployment], end: End) -> list[Run]:
    """Run all rows, with one end of version 1."""
    modules = [row.module for row in found]
    async with world(
        folder, found, is_killed=end is End.KILLED, is_beside=end is End.STAYS
    ) as fleet:
        for row, pipeline in loaded(folder / "v1", found):
            await submit_row(fleet, row, pipeline)
        first = await fleet.worker("1", modules)
        await reach_moments(fleet, found)
        if end is not End.STAYS:
            how = signal.SIGKILL if end is End.KILLED else signal.SIGTERM
            await fleet.end(first, how)
            fleet.service.second.set()
        await fleet.worker("2", modules)
        fleet.service.second.set()
        await settle(fleet, found, end)
        return [run async for run in runs(fleet, found, end)]


def loaded(
    folder: Path, found: Sequence[Deployment]
) -> Sequence[tuple[Deployment, Pipeline]]:
    """Return each row with its pipeline; the modules of other worlds have their names.

    So it does not await, and leaves no module behind.
    """
    sys.path.insert(0, str(folder))
    try:
        return [(row, load_pipeline(row.module)) for row in found]
    finally:
        sys.path.pop(0)
        for row in found:
            for name in (row.module, *row.parts):
                sys.modules.pop(name, None)


async def submit_row(fleet: Fleet, row: Deployment, pipeline: Pipeline) -> None:
    """Submit the job of a row by version 1."""

    async def inputs() -> AsyncIterator[ChunkInput]:
        for moment in row.moments:
            payload = {**row.change.row, "order": order_of(row, moment)}
            yield ChunkInput(moment, json.dumps(payload).encode())

    request = Submission(ref_of(row), pipeline, "drill", "make deployments")
    await submit(fleet.rt, request, inputs())


def ref_of(row: Deployment) -> JobRef:
    """Return the job of a row."""
    return JobRef("default", row.name)


async def reach_moments(fleet: Fleet, found: Sequence[Deployment]) -> None:
    """Wait until each chunk of version 1 is at its moment."""
    service = fleet.service
    ended = [row for row in found if "ended" in row.moments]
    orders = {order_of(row, moment) for row in found for moment in row.moments}
    held = {order for order in orders if not order.endswith(".ended")}
    flying = {order for order in orders if order.endswith(".flight")}
    try:
        async with asyncio.timeout(REACH_S):
            await service.wait_for(held - flying)
            service.sending.set()
            await service.wait_for(held)
            for row in ended:
                while not (await chunks_of(fleet, row))[-1].status.ended:  # noqa: ASYNC110 -- a row has no event
                    await asyncio.sleep(POLL_S)
    except TimeoutError as error:
        missing = ", ".join(sorted(held - service.held)) or "the end of some chunks"
        raise RuntimeError(f"Version 1 did not reach {missing}.") from error


def order_of(row: Deployment, moment: str) -> str:
    """Return the order of a chunk, as the service knows it."""
    return f"{row.name}.{moment}"


async def settle(fleet: Fleet, found: Sequence[Deployment], end: End) -> None:
    """Wait until each chunk has ended, or waits for other workers.

    A chunk that waits may go on at any time. So it is looked at again, until nothing
    becomes of any chunk for now.
    """
    loop = asyncio.get_running_loop()
    began, left, more = loop.time(), list(found), True
    while more and loop.time() < began + SETTLE_S:
        await asyncio.sleep(POLL_S)
        ignores = loop.time() > began + IGNORED_S
        left = [row for row in left if not ("N" in row.ends and ignores)]
        states = [await state_of(fleet, row, end) for row in left]
        more = State.BUSY in states
        left = [
            row
            for row, state in zip(left, states, strict=True)
            if state is not State.ENDED
        ]


class State(StrEnum):
    """What becomes of the chunks of a row."""

    BUSY = "they go on"
    WAITS = "they have ended, or wait for a safe version"
    ENDED = "they and their job have ended"


async def state_of(fleet: Fleet, row: Deployment, end: End) -> State:
    """Return what becomes of the chunks of a row."""
    chunks = await chunks_of(fleet, row)
    least = STOPS if end is End.STAYS else 1
    if not all(is_over(chunk, least) for chunk in chunks):
        return State.BUSY
    if not all(chunk.status.ended for chunk in chunks):
        return State.WAITS
    job = await require_job(fleet.rt, row.name)
    join = await read_chunk(fleet.rt.table, job.ref.chunk(JOIN_CHUNK))
    if job.status.ended:
        return State.ENDED
    return State.WAITS if join is not None and is_over(join, least) else State.BUSY


def is_over(chunk: Chunk, least: int) -> bool:
    """Return whether a chunk has ended, or was stopped so often, and still is."""
    stopped = chunk.error_code in {CHANGED_CODE, NO_STAGE_CODE}
    return chunk.status.ended or (stopped and chunk.stage_deferrals >= least)


async def chunks_of(fleet: Fleet, row: Deployment) -> list[Chunk]:
    """Return the chunks of a row, in the order of the moments."""
    rt, ref = fleet.rt, ref_of(row)
    return [chunk async for chunk in all_chunks(rt.table, ref, len(row.moments))]


async def runs(
    fleet: Fleet, found: Sequence[Deployment], end: End
) -> AsyncIterator[Run]:
    """Yield the outcome of each chunk, and of the joins that a row speaks of."""
    rt, service = fleet.rt, fleet.service
    letters = DeadLetters(rt.dead_letters, rt.settings, rt.clock)
    for row in found:
        ref = ref_of(row)
        dead = {letter.chunk: letter async for letter in letters.of_job(ref)}
        document: Document = await explain(rt, await require_job(rt, row.name))
        findings = [finding["code"] for finding in document["findings"]]
        chunks = await chunks_of(fleet, row)
        for number, (moment, chunk) in enumerate(zip(row.moments, chunks, strict=True)):
            order = order_of(row, moment)
            acts = service.book.get(order, Counter())
            versions = service.by_version.get(order, Counter())
            letter = dead.get(number)
            yield Run(row, end, moment, chunk, letter, acts, versions, findings)
        if row.join:
            join = await read_chunk(rt.table, ref.chunk(JOIN_CHUNK))
            letter = dead.get(JOIN_CHUNK)
            yield Run(row, end, "join", join, letter, Counter(), Counter(), findings)
