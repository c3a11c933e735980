"""Record what version 1 writes; run once a version, before its successor is begun.

    pytest verification/upgrade/recording.py

It is not a part of the suite: its name is not that of a test. The record holds a job
that has ended, and a job of which a worker was killed. Its chunks succeeded, wait,
died, were compensated, or were running.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from piecework.domain import keys
from piecework.domain.schema import SCHEMA
from piecework.domain.states import ChunkStatus
from piecework.store.breakers import Breakers
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, telling, trip

RECORD = Path(__file__).parent / f"items_v{SCHEMA}.json"
TROUBLES = ("", "car-transient", "tell-transient", "car-permanent", "slow-car")


async def test_record_what_this_version_writes(machine: Scenario) -> None:
    scenario = machine
    worker = await scenario.process()
    await scenario.submit(telling, [Item(n=9, calls=60)], "ended")
    await scenario.ended("ended")
    await scenario.until(lambda: counted(scenario))
    items = [Item(n=n, trouble=trouble) for n, trouble in enumerate(TROUBLES)]
    await scenario.submit(trip, items, "half")
    await scenario.until(lambda: as_wanted(scenario))
    await worker.kill()

    breakers = Breakers(scenario.rt.table, "worker-1", scenario.rt.clock)
    await breakers.open("model", 0, scenario.rt.clock(), "llm.http.503_unavailable")
    found = await everything(scenario)
    text = json.dumps(found, sort_keys=True, default=base64_text)
    # One item a line: within a text, JSON has a backslash before each quote.
    text = text.replace('}, {"', '},\n{"')
    RECORD.write_text(text.replace(worker.name, "worker-1") + "\n", "utf-8")


async def counted(scenario: Scenario) -> bool:
    """Return whether the cost of the ended job is written, which is done late."""
    pk = keys.job_pk("default", "ended")
    found = scenario.rt.table.query(pk, keys.COST_PREFIX)
    return bool([row async for row in found])


async def as_wanted(scenario: Scenario) -> bool:
    """Return whether each chunk is where its trouble leads it, and one is running."""
    found = [chunk.status for chunk in await scenario.chunks("half")]
    waiting = ChunkStatus.WAITING
    wanted = [ChunkStatus.SUCCEEDED, waiting, waiting, ChunkStatus.DEAD]
    return found == [*wanted, ChunkStatus.RUNNING] and bool(scenario.happened("car"))


async def everything(scenario: Scenario) -> dict[str, Any]:
    """Return all items of both tables, and all objects."""
    rt = scenario.rt
    return {
        "checkpoints": await scanned(rt.table),
        "dead-letters": await scanned(rt.dead_letters),
        "objects": {
            name: (await rt.objects.get(name)).decode()
            for job in ("ended", "half")
            async for name in rt.objects.names(keys.object_prefix("default", job))
        },
    }


def base64_text(value: bytes) -> str:
    """Return bytes, such as packed answers, as DynamoDB's own JSON has them."""
    return base64.b64encode(value).decode()


async def scanned(table: Any) -> list[dict[str, Any]]:
    """Return the items of a table as they go over the wire."""
    reply = await table.client.scan(TableName=table.name, ConsistentRead=True)
    return sorted(reply["Items"], key=lambda item: (item["pk"]["S"], item["sk"]["S"]))
