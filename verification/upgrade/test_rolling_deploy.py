"""Guarantee: two versions run side by side, there and back, and nothing is lost.

True processes of this version and the next run on one deployment. The next one writes
items and messages of versions that this one does not know.

    forward    each version has a job; the next one's waits for a worker of its own
    back       the next version is gone: its second job waits, through the dead-letter
               queue and out of it again. This version does its own job.
    forward    a worker of the next version takes this one's place, and does that job
"""

from __future__ import annotations

import json
import sys
from asyncio.subprocess import Process
from typing import Any

from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, counting
from verification.upgrade.versions import Version

CHUNKS = 4


async def test_two_versions_side_by_side_forward_back_and_forward_again(
    machine: Scenario, this: Version, following: Version
) -> None:
    await few_receives(machine)
    submitter = await following.start("verification.upgrade.submitting")
    old = await this.worker()
    await submit(submitter, "next-1")
    await machine.submit(counting, [Item(n=n, calls=1) for n in range(CHUNKS)], "a")
    await machine.ended("a", within=60)
    await machine.until(lambda: left(this) > 0, within=60)
    new = await following.worker()
    await ended(machine, "next-1")
    figures = [await stop(new)]

    set_aside = turns_set_aside(this)
    await submit(submitter, "next-2")
    await machine.submit(counting, [Item(n=n, calls=1) for n in range(CHUNKS)], "b")
    await machine.ended("b", within=60)
    await machine.until(lambda: turns_set_aside(this) > set_aside, within=60)
    assert {item["status"] for item in await chunks(machine, "next-2")} == {"PENDING"}

    new = await following.worker()
    figures.append(await stop(old))
    await ended(machine, "next-2")
    figures.append(await stop(new))

    for job in ("a", "b", "next-1", "next-2"):
        items = await chunks(machine, job)
        assert [i["status"] for i in items] == ["SUCCEEDED"] * CHUNKS
        assert [i["attempts"] for i in items] == [1] * CHUNKS
    of_the_next = [*await chunks(machine, "next-1"), *await chunks(machine, "next-2")]
    assert {(i["v"], i["colour"]) for i in of_the_next} == {(2, "green")}
    happened = [line.split() for line in this.ledger + following.ledger]
    assert sum(line[0] == "second" for line in happened) == 4 * CHUNKS
    assert sum(line[0] == "join" for line in happened) == 4
    assert len(following.ledger) >= 2 * (3 * CHUNKS + 1)
    assert await nothing_set_aside(machine)
    done = [sum(f.get("ChunksSucceeded", 0) for f in each) for each in figures]
    assert sum(done) == 4 * CHUNKS
    assert sum(f.get("MessagesDeferred", 0) for f in figures[1]) == left(this)
    said = f"{4 * CHUNKS} chunks done once, {left(this)} turns left to the next version"
    sys.stdout.write(f"{said}, 0 quarantined, 0 dead\n")


async def submit(submitter: Process, job: str) -> None:
    """Have the next version submit a job."""
    assert submitter.stdin is not None
    assert submitter.stdout is not None
    submitter.stdin.write(f"{job} {CHUNKS}\n".encode())
    assert (await submitter.stdout.readline()).decode() == f"{job}\n"


def left(version: Version) -> int:
    """Count the turns that were left to a newer version."""
    return version.log.count('"event": "message.deferred_newer_schema"')


def turns_set_aside(version: Version) -> int:
    """Count those of them that had gone through the dead-letter queue."""
    return version.log.count('"about": "dead-letter queue"')


async def ended(scenario: Scenario, job: str) -> None:
    """Wait until a job of the next version has succeeded.

    It is luck which version meets a message next, and each turn takes some seconds.
    """

    async def has_ended() -> bool:
        return (await raw(scenario, job, "META"))[0]["status"] == JobStatus.SUCCEEDED

    await scenario.until(has_ended, within=300)


async def chunks(scenario: Scenario, job: str) -> list[dict[str, Any]]:
    """Return the chunks of a job as they lie there, of whatever version."""
    return await raw(scenario, job, "CHUNK#")


async def raw(scenario: Scenario, job: str, prefix: str) -> list[dict[str, Any]]:
    found = scenario.rt.table.query(JobRef("default", job).pk, prefix, any_version=True)
    return [item async for item in found]


async def stop(worker: Process) -> list[dict[str, float]]:
    """Stop a worker in order; return the lines of metrics that it wrote."""
    worker.terminate()
    out, _ = await worker.communicate()
    assert worker.returncode == 0
    return [json.loads(line) for line in out.splitlines()]


async def few_receives(scenario: Scenario) -> None:
    """Let SQS set a message aside after two receives instead of ten."""
    work = scenario.rt.work.default
    asked: Any = {"QueueUrl": work.url, "AttributeNames": ["RedrivePolicy"]}
    reply = await work.client.get_queue_attributes(**asked)
    policy = json.loads(reply["Attributes"]["RedrivePolicy"]) | {"maxReceiveCount": 2}
    await work.client.set_queue_attributes(
        QueueUrl=work.url, Attributes={"RedrivePolicy": json.dumps(policy)}
    )


async def nothing_set_aside(scenario: Scenario) -> bool:
    """Return whether there is no dead letter, and no message in quarantine."""
    return [row async for row in scenario.rt.dead_letters.scan()] == []
