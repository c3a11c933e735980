"""The story of a job, as real workers left it on the record, in virtual time."""

from __future__ import annotations

import asyncio
from io import StringIO
from typing import Any

from pydantic import BaseModel
from rich.console import Console

from piecework import Context, Pipeline, Stage, TransientError
from piecework_orchestrator.cli.views.timeline import timeline_view
from piecework_orchestrator.reading.chunk_documents import chunk_document
from piecework_orchestrator.reading.events import job_events
from piecework_orchestrator.reading.timeline import chunk_timeline, job_timeline
from verification.drill.fleet import REF, Fleet, exercise


class Parcel(BaseModel):
    """A chunk of the test."""


async def weigh(ctx: Context[Parcel]) -> None:
    """Return nothing."""
    del ctx
    await asyncio.sleep(5.0)


async def send(ctx: Context[Parcel]) -> str:
    """Fail in the first attempt; take long in the second."""
    if ctx.attempt == 1:
        raise TransientError("Busy.", code="tool.http.500_x", retry_after=30.0)
    await asyncio.sleep(100.0)
    return "sent"


parcels = Pipeline("parcels", payload=Parcel, stages=[Stage(weigh), Stage(send)])


def story() -> dict[str, Any]:
    """Return what is told of a chunk that failed once, and lost its worker once."""

    async def act(fleet: Fleet) -> dict[str, Any]:
        fleet.worker(parcels)
        done = await fleet.driver.submit(REF, parcels, [Parcel()], mortal=False)
        assert done == "done"
        await asyncio.sleep(80.0)  # the second attempt runs
        second = await chunk_timeline(fleet.rt, await fleet.job(), REF.chunk(0))
        fleet.kill()
        fleet.worker(parcels)
        await asyncio.sleep(400.0)
        job = await fleet.job()
        assert job.status.ended
        ref = REF.chunk(0)
        return {
            "second": second["spans"],
            "chunk": await chunk_timeline(fleet.rt, job, ref),
            "job": await job_timeline(fleet.rt, job),
            "events": await job_events(fleet.rt, job),
            "document": await chunk_document(fleet.rt, job, 0),
        }

    return exercise(act)


def test_each_attempt_and_each_wait_has_start_end_and_reason() -> None:
    told = story()
    spans = told["chunk"]["spans"]
    claims = [span for span in spans if span["kind"] == "claim"]
    waits = [span for span in spans if span["kind"] == "wait"]

    ends = [(claim["worker"], claim["end"]) for claim in claims]
    assert ends == [
        ("worker-1", "retry"),
        ("worker-1", "lost"),
        ("worker-2", "succeeded"),
    ]
    assert [wait["reason"] for wait in waits] == [
        "tool.http.500_x",
        "runtime.worker.lost",
    ]
    assert waits[0]["seconds"] >= 30.0
    running = [span for span in told["second"] if span["kind"] == "claim"][-1]
    assert ("running", None) == (running["end"], running.get("code"))
    assert [c["to"] for c in claims[:2]] == [w["from"] for w in waits]
    assert [c["from"] for c in claims[1:]] == [w["to"] for w in waits]


def test_each_stage_has_its_start_its_worker_and_its_attempt() -> None:
    stages = story()["document"]["stages"]
    facts = [(row["stage"], row["worker"], row["attempt"]) for row in stages]

    assert facts == [("weigh", "worker-1", 1), ("send", "worker-2", 2)]
    assert all(row["started_at"] < row["finished_at"] for row in stages)


def test_the_events_of_a_job_name_the_takeover() -> None:
    told = story()
    [takeover] = [e for e in told["events"] if e["event"] == "taken over"]

    assert takeover["facts"] == {"chunk": 0, "worker": "worker-1"}
    phases = [s["name"] for s in told["job"]["spans"] if s["kind"] == "phase"]
    assert phases == ["submit", "run", "join"]


def test_a_timeline_fits_in_eighty_columns() -> None:
    told = story()
    for name in ("chunk", "job"):
        console = Console(width=10_000, record=True, file=StringIO())
        timeline_view(told[name])(console)
        lines = console.export_text().splitlines()
        assert len(lines) > 4
        assert max(map(len, lines)) <= 80
