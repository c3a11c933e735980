"""Every piece of work names its code: true workers, and a prompt changed in the middle.

Two versions of one pipeline work on a job of 400 chunks, one after the other or beside
each other.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import Context, PermanentError, Pipeline, Stage
from piecework.domain.chunk import Chunk
from piecework_orchestrator.cli.results import result_lines
from piecework_orchestrator.reading.job_documents import job_document, require_job
from tests.unit.orchestrator.simulated import REF, Simulated, simulate

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
        await at.ended()
        return [
            (item["stage"], item["code_version"])
            for chunk in await at.chunks()
            async for item in at.rt.table.query(chunk.ref.pk, "WORK#")
            if "finished_at" in item
        ]

    rows = simulate(act, workers=0)

    assert rows
    assert {("ask", "v1")} == set(rows)


def test_a_dead_letter_names_the_code() -> None:
    async def act(at: Simulated) -> str:
        start(at, asking("one", refuses=0), "v1", beside=False)
        await at.submit(asking("one"), [Item()])
        await at.ended()
        [letter] = await at.letters()
        return letter.code_version

    assert "v1" == simulate(act, workers=0)
