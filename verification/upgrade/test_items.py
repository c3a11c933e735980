"""Guarantee: what version 1 has written is read and gone on with by today's code.

`verification/upgrade/recording.py` recorded `items_v1.json` once and for all. A change
that cannot read it needs another version, or a way to read both.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.states import JobStatus
from piecework.store.breakers import Breakers
from piecework_orchestrator.reading.chunk_documents import chunk_document
from piecework_orchestrator.reading.events import job_events
from piecework_orchestrator.reading.job_documents import job_document
from tests.scenarios.conftest import Scenario


def with_bytes(found: dict[str, Any]) -> dict[str, Any]:
    """Return a value of the record as it goes over the wire."""
    return {"B": base64.b64decode(found["B"])} if found.keys() == {"B"} else found


V1: dict[str, Any] = json.loads(
    (Path(__file__).parent / "items_v1.json").read_text("utf-8"),
    object_hook=with_bytes,
)
#: One of each kind that the record must hold, by the words of its sort key.
KINDS = {
    *("META", "CHUNK", "JOIN", "TALLY", "EVENT", "NOTIFICATION", "RESULT"),
    *("STAGE", "CALLS", "EFFECT", "ERROR", "COMPENSATION", "COMPENSATED"),
}
#: What only adds up, and is made by adding: decision 0014.
COUNTERS = {"TALLY", "COST"}
#: Rows without a version, which is version 1: these, and the events of the environment.
WITHOUT = COUNTERS | {"EVENTS"}
#: An attribute that a later release may add without another version.
LATER = {"later": {"S": "kept"}}


@pytest.fixture
async def recorded(scenario: Scenario) -> Scenario:
    """Lay down what version 1 left, in a deployment without any message."""
    rt = scenario.rt
    for table, name in ((rt.table, "checkpoints"), (rt.dead_letters, "dead-letters")):
        for item in V1[name]:
            later = LATER if item["sk"]["S"].startswith(("META", "CHUNK")) else {}
            put = {"TableName": table.name, "Item": item | later}
            await table.client.put_item(**put)
    for name, content in V1["objects"].items():
        await rt.objects.put(name, content.encode())
    return scenario


def test_the_record_holds_each_kind_of_item() -> None:
    words = [item["sk"]["S"].split("#") for item in V1["checkpoints"]]
    kinds = {w[2] if w[0] == "WORK" else w[0] for w in words}

    assert kinds >= KINDS
    assert len(V1["dead-letters"]) == 2
    items = [*V1["checkpoints"], *V1["dead-letters"]]
    names = [
        item["pk" if item["pk"]["S"] == keys.events_pk("") else "sk"] for item in items
    ]
    without = {
        name["S"].partition("#")[0]
        for name, item in zip(names, items, strict=True)
        if "v" not in item
    }
    assert without == WITHOUT


async def test_a_half_done_job_of_version_1_is_brought_to_its_end(
    recorded: Scenario,
) -> None:
    recorded.fix()
    async with recorded.worker(), recorded.reconciler():
        partial = await recorded.ended("half", within=60)
        await recorded.redrive("half")
        ended = await recorded.ended("half", within=60)

    assert (partial.status, ended.status) == (JobStatus.PARTIAL, JobStatus.SUCCEEDED)
    # What version 1 had booked is not booked again, but for what it had undone.
    booked = Counter(
        line[2] for line in recorded.ledger if line[:2] == ["book", "flight"]
    )
    assert booked == {"3": 1}
    assert recorded.happened("book", "payment") == 3
    assert recorded.happened("told", "ended") >= 1
    items = [ended.item, *(chunk.item for chunk in await recorded.chunks("half"))]
    assert [item.get("later") for item in items] == ["kept"] * len(items)


async def test_the_views_read_what_version_1_left(recorded: Scenario) -> None:
    rt = recorded.rt
    for name in ("ended", "half"):
        job = await recorded.job(name)
        document = await job_document(rt, job)
        assert sum(document["counts"].values()) == job.chunks
        assert await job_events(rt, job)
        for chunk in await recorded.chunks(name):
            assert await chunk_document(rt, job, chunk.ref.chunk)
    assert len(await recorded.letters("half")) == 1
    assert set(await Breakers(rt.table, "w", rt.clock).read_all()) == {"model"}
