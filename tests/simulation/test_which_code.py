"""Every piece of work names its code: true workers, and a prompt changed in the middle.

Two versions of one pipeline work on a job of 400 chunks, one after the other or beside
each other.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import Context, PermanentError, Pipeline, Stage
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.keys import JOIN_CHUNK
from piecework.store.completion import read_chunk
from piecework_orchestrator.cli.results import result_lines
from piecework_orchestrator.dead_letters.redrive import redrive
from piecework_orchestrator.reading.chunk_documents import chunk_document
from piecework_orchestrator.reading.job_documents import (
    explain,
    job_document,
    require_job,
)
from tests.unit.orchestrator.simulated import (
    REF,
    Simulated,
    redrive_of,
    simulate,
)

CHUNKS = 400


class Item(BaseModel):
    n: int = 0


def asking(prompt: str, refuses: int = -1) -> Pipeline:
    """Return a version of the pipeline: its answers tell its prompt."""

    async def ask(ctx: Context[Item]) -> str:
        await asyncio.sleep(1.0)
        if ctx.payload.n == refuses:
            message = "no"
            raise PermanentError(message, code="tool.x.no")
        return f"{prompt} {ctx.payload.n}"

    async def check(ctx: Context[Item]) -> str:
        await asyncio.sleep(1.0)
        return str(ctx.values["ask"])

    stages = [Stage(ask, name="ask"), Stage(check, name="check")]
    return Pipeline("asking", payload=Item, stages=stages)


def start(at: Simulated, pipeline: Pipeline, version: str, *, beside: bool) -> None:
    """Start a worker of a version; kill those of the others unless they stay."""
    for process in [] if beside else list(at.fleet.workers):
        at.world.kill(process)
    at.fleet.pipelines = {pipeline.name: pipeline}
    at.fleet.code_versions = {pipeline.name: version}
    at.fleet.worker(reconcile=True)


def ended(chunks: list[Chunk]) -> list[Chunk]:
    return [chunk for chunk in chunks if chunk.status.ended]


async def until(at: Simulated, holds: Callable[[list[Chunk]], bool]) -> None:
    """Wait until something holds of the chunks."""
    while True:
        if holds(await at.chunks()):
            return
        await asyncio.sleep(0.1)


async def last(ctx: Context[Item]) -> str:
    """Run after the stages of version 1."""
    return str(ctx.values["check"])


async def lines_of(at: Simulated) -> AsyncIterator[dict[str, Any]]:
    job = await require_job(at.rt, REF.job)
    async for line in result_lines(at.rt, job, print, with_version=True):  # type: ignore[arg-type]
        yield line


@pytest.mark.parametrize("beside", [False, True])
def test_results_certificate_and_counts_say_which_code_made_what(
    *, beside: bool
) -> None:
    """The two prompts are in the results, so each line can be checked."""

    async def act(at: Simulated) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        start(at, asking("one", refuses=3), "v1", beside=False)
        items = [Item(n=n) for n in range(CHUNKS)]
        await at.submit(asking("one"), items)
        await until(at, lambda chunks: len(ended(chunks)) >= CHUNKS // 3)
        start(at, asking("two"), "v2", beside=beside)
        job = await at.ended()
        found = [line async for line in lines_of(at)]
        return found, await job_document(at.rt, job)

    lines, document = simulate(act, workers=0)

    made = Counter(line["code_version"] for line in lines)
    assert CHUNKS == sum(made.values())
    assert min(made.values()) > CHUNKS // 10
    assert made == document["code_versions"] == document["certificate"]["code_versions"]
    for line in lines:
        prompt = line.get("value", "one").split()[0]
        # A chunk whose prompt was answered before the deployment ended after it.
        assert (prompt, line["code_version"]) != ("two", "v1")
    answered_by = Counter(line["value"].split()[0] for line in lines if "value" in line)
    assert answered_by["two"] <= made["v2"]
    assert "v1" == next(line["code_version"] for line in lines if line["chunk"] == 3)


def test_each_row_of_a_chunk_names_the_code_that_wrote_it() -> None:
    """A stage of version 1 stays its own in a chunk that version 2 ends."""

    async def act(at: Simulated) -> list[Any]:
        start(at, asking("one"), "v1", beside=False)
        await at.submit(asking("one"), [Item(), Item(n=1)])
        await until(at, lambda chunks: {each.stage for each in chunks} == {"check"})
        start(at, asking("two"), "v2", beside=False)
        job = await at.ended()
        found = [await chunk_document(at.rt, job, number) for number in (0, 1)]
        return [stage for each in found for stage in each["stages"]]

    stages = simulate(act, workers=0)

    made = Counter((each["stage"], each["code_version"]) for each in stages)
    assert {("ask", "v1"): 2, ("check", "v2"): 2} == made


def test_a_dead_letter_names_the_code() -> None:
    async def act(at: Simulated) -> str:
        start(at, asking("one", refuses=0), "v1", beside=False)
        await at.submit(asking("one"), [Item()])
        await at.ended()
        [letter] = await at.letters()
        return letter.code_version

    assert "v1" == simulate(act, workers=0)


# ── a job that is pinned to one version ───────────────────────────────────────


def pinned(act: Callable[[Simulated], Any]) -> Any:
    """Run an act in a world whose operators have version 1."""
    return simulate(act, workers=0, code_version="v1")  # type: ignore[arg-type]


async def submit_pinned(at: Simulated, chunks: int = 20) -> None:
    items = [Item(n=n) for n in range(chunks)]
    done = await at.fleet.submit(REF, asking("one"), items, pin=True, mortal=False)
    assert "done" == done


def test_only_workers_of_its_version_run_a_pinned_job_and_its_join() -> None:
    """The other worker stays beside, and receives half of the messages."""

    async def act(at: Simulated) -> tuple[list[dict[str, Any]], list[Chunk]]:
        start(at, asking("two"), "v2", beside=True)
        start(at, asking("one"), "v1", beside=True)
        await submit_pinned(at)
        await at.ended()
        join = await read_chunk(at.rt.table, REF.chunk(JOIN_CHUNK))
        return [line async for line in lines_of(at)], [join] if join else []

    lines, [join] = pinned(act)

    assert {"v1"} == {line["code_version"] for line in lines} | {join.code_version}
    assert {"one"} == {line["value"].split()[0] for line in lines}


def test_a_missing_version_is_named_and_costs_no_attempt_until_it_is_there() -> None:
    async def act(at: Simulated) -> tuple[dict[str, Any], Chunk, list[Chunk]]:
        start(at, asking("two"), "v2", beside=True)
        await submit_pinned(at, 2)
        await asyncio.sleep(600.0)
        explained = await explain(at.rt, await require_job(at.rt, REF.job))
        waiting = (await at.chunks())[0]
        start(at, asking("one"), "v1", beside=True)
        await at.ended()
        return explained, waiting, await at.chunks()

    explained, waiting, chunks = pinned(act)

    # No report of the workers is in this world: what they noted is on the job.
    assert "workers.none" == explained["findings"][0]["code"]
    assert ("PENDING", 0, 0) == (waiting.status, waiting.attempts, waiting.fence)
    assert {("SUCCEEDED", 1)} == {(str(c.status), c.attempts) for c in chunks}


def test_the_pin_outlives_a_redrive_and_an_unpin_lets_the_newest_code_go_on() -> None:
    async def act(at: Simulated) -> tuple[Job, list[Chunk], list[Chunk]]:
        start(at, asking("one", refuses=0), "v1", beside=True)
        await submit_pinned(at, 1)
        await at.ended()
        start(at, asking("two"), "v2", beside=False)
        await redrive(at.rt, redrive_of(await at.letters()))
        await asyncio.sleep(600.0)
        waiting = await at.chunks()
        job = await require_job(at.rt, REF.job)
        assert await at.rt.jobs.unpin(job)
        await at.ended()
        return job, waiting, await at.chunks()

    job, [waiting], [chunk] = pinned(act)

    assert ("v1", "runtime.code.pinned") == (job.pinned_to, job.status_reason_code)
    assert ("PENDING", "v1") == (waiting.status, waiting.code_version)
    assert ("SUCCEEDED", "v2") == (chunk.status, chunk.code_version)


def test_a_change_that_is_safe_is_said_once_for_each_job_and_version() -> None:
    """Two workers of the new version run twenty chunks, and one row and event tell."""
    two = asking("two")
    longer = replace(two, stages=[*two.stages, Stage(last, name="z")])

    async def act(at: Simulated) -> tuple[Job, list[str]]:
        start(at, longer, "v2", beside=True)
        start(at, longer, "v2", beside=True)
        await at.submit(asking("one"), [Item(n=n) for n in range(20)])
        job = await at.ended()
        events = await at.rt.jobs.events(REF)
        return job, [e.facts["change"] for e in events if e.event == "code changed"]

    job, events = simulate(act, workers=0)

    change = "v2: 'z' is new; the result is that of 'z'."
    assert [change] == job.code_changes
    assert [change] == events
