"""Guarantee: what a worker counts is what the tables say, whatever was doubled."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections import Counter
from typing import Any

import pytest

from piecework.aws.queue import Message
from piecework.domain.states import ChunkStatus
from piecework.telemetry.metrics import METRICS
from tests.scenarios.conftest import ROOT, Scenario
from tests.scenarios.pipelines import Item, counting
from tests.unit.piecework.telemetry.emf_schema import faults

CHUNKS = 8
#: The metrics that such a run must have sent. The others need an outage, a newer
#: version, a saga, or a stop during work. The unit tests of the catalogue have them.
SAID = {
    *("ChunksClaimed", "ChunksSucceeded", "ChunksDead", "ChunksRescheduled"),
    *("CallsAnswered", "DeadLetters", "ReconcilerPasses", "JobsFinished"),
    *(
        "WorkersStopped",
        "ChunksInProgress",
        "CallsInFlight",
        "BreakersOpen",
        "JobsActive",
    ),
    *("OpenDeadLetters", "OldestDeadLetterSeconds", "OldestOverdueChunkSeconds"),
    *("ChunkSeconds", "CallSeconds", "ReconcilerPassSeconds", "MessagesQuarantined"),
}


async def test_the_totals_are_those_of_the_tables_though_messages_are_doubled(
    machine: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIECEWORK_METRICS", "emf")
    monkeypatch.setenv("PIECEWORK_MAX_ATTEMPTS", "2")
    trouble = {0: "permanent", 1: "transient"}
    items = [Item(n=n, calls=2, trouble=trouble.get(n, "")) for n in range(CHUNKS)]
    job, _ = await machine.submit(counting, items)
    rt = machine.rt
    await rt.work.send(
        [Message.about(job.ref.chunk(n), 1) for n in range(CHUNKS)], to=""
    )
    await rt.work.default.client.send_message(
        QueueUrl=rt.work.default.url, MessageBody="no json"
    )
    worker = await start("piecework_worker", "--pipelines", "tests.scenarios.pipelines")
    await machine.ended()
    found = await lines(worker)

    assert [] == [f for line in found for f in faults(json.loads(line), len(line))]
    totals = total([json.loads(line) for line in found])
    chunks = await machine.chunks()
    states = Counter(chunk.status for chunk in chunks)
    assert totals["ChunksSucceeded"] == states[ChunkStatus.SUCCEEDED] == CHUNKS - 2
    assert totals["ChunksDead"] == states[ChunkStatus.DEAD] == 2
    assert totals["DeadLetters"] == len(await machine.letters()) == 2
    assert totals["ChunksClaimed"] == sum(chunk.fence for chunk in chunks)
    assert totals["CallsAnswered"] == machine.happened("call") == 2 * (CHUNKS - 2)
    assert (totals["JobsFinished"], totals["WorkersStopped"]) == (1, 1)
    assert totals["MessagesQuarantined"] == 1
    assert set(totals) >= SAID
    assert set(totals) <= set(METRICS)


async def test_a_reconciler_writes_metrics_to_stdout_and_nothing_else(
    machine: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIECEWORK_METRICS", "emf")
    monkeypatch.setenv("PIECEWORK_LOG_LEVEL", "debug")
    reconciler = await start(
        "piecework_orchestrator", "reconcile", "--loop", stderr=PIPE
    )
    assert reconciler.stderr is not None
    while b"reconcile.pass" not in await reconciler.stderr.readline():
        pass
    (line,) = await lines(reconciler)

    assert faults(json.loads(line), len(line)) == []
    assert json.loads(line)["ReconcilerPasses"] >= 1


async def start(*arguments: str, stderr: int = DEVNULL) -> asyncio.subprocess.Process:
    """Start a process whose stdout is read."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *arguments), cwd=ROOT, stdout=PIPE, stderr=stderr
    )


async def lines(worker: asyncio.subprocess.Process) -> list[str]:
    """Stop a process, and return what it wrote."""
    worker.terminate()
    out, _ = await asyncio.wait_for(worker.communicate(), 20)
    assert worker.returncode == 0
    return out.decode().splitlines()


def total(documents: list[dict[str, Any]]) -> dict[str, float]:
    """Add the counts up; of anything else, say that it was there."""
    found: Counter[str] = Counter()
    for document in documents:
        for name in document.keys() & METRICS.keys():
            value = document[name] if METRICS[name].kind == "count" else 1
            found[name] += value
    return dict(found)
