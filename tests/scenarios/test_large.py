"""Guarantee: a job of several groups ends as a small one does, looked at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from piecework.aws.queue import Message
from piecework.domain import keys
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.jobs.fan_in import Certificate, start_finalizing
from piecework.store.completion import SnapshotCache, Tallies
from piecework.store.table import Item as Row
from piecework.store.table import Table
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, counting

#: Reads of all chunks in a generation: one decides, one is for the results, which
#: the join asks for.
READS = 2
#: One group, and a few chunks of the next.
CHUNKS = keys.PARTITION_SIZE + 8
REF = JobRef("default", "job-1")


class Watched(Table):
    """Keeps of which groups all chunks were read."""

    reads: Counter[str]

    def query(self, pk: str, prefix: str = "", **how: Any) -> AsyncIterator[Row]:
        if prefix == keys.CHUNK_PREFIX:
            self.reads[pk] += 1
        return super().query(pk, prefix, **how)


def watched(scenario: Scenario) -> Watched:
    table = scenario.rt.table
    found = Watched(table.client, table.name, table.rng)
    found.reads = Counter()
    return found


async def certificate(scenario: Scenario) -> Certificate:
    job = await scenario.job()
    content = await scenario.rt.objects.get(str(job.item["certificate"]))
    return Certificate.model_validate_json(content)


class Uncounted(Tallies):
    """What a worker that dies before it counts comes to."""

    async def add(self, *_: object) -> bool:
        return False


async def settled(scenario: Scenario) -> bool:
    return all(chunk.status.ended for chunk in await scenario.chunks())


async def test_one_snapshot_ends_a_job_of_two_groups_in_each_generation(
    scenario: Scenario,
) -> None:
    dead = {7, CHUNKS - 1}
    items = [Item(n=n, trouble="permanent" * (n in dead)) for n in range(CHUNKS)]
    await scenario.submit(counting, items)
    table = watched(scenario)
    groups = {keys.partition_pk("default", "job-1", group) for group in (0, 1)}

    async with scenario.worker(table=table):
        ended = await scenario.ended()
        assert JobStatus.PARTIAL is ended.status
        assert {0, 1} == ended.item["full_groups"]
        assert dict.fromkeys(groups, READS) == table.reads
        first = await certificate(scenario)
        assert dead == {one.chunk for one in first.missing}

        scenario.fix()
        assert (2, 2) == await scenario.redrive()
        ended = await scenario.ended()

    assert JobStatus.SUCCEEDED is ended.status
    assert dict.fromkeys(groups, 2 * READS) == table.reads
    second = await certificate(scenario)
    assert set(range(CHUNKS)) == set(second.results)
    assert first.results.items() <= second.results.items()
    assert CHUNKS == scenario.happened("first")


async def test_a_join_that_another_worker_claims_reads_its_own_snapshot(
    scenario: Scenario,
) -> None:
    await scenario.submit(counting, [Item(n=n) for n in range(3)])
    async with scenario.worker(tallies=Uncounted(scenario.rt.table)):
        await scenario.until(lambda: settled(scenario))

    # The first finishes the job and dies; the second has seen nothing of it.
    begun = await start_finalizing(scenario.rt, REF)
    assert begun is not None
    await scenario.rt.work.send([Message.about(*begun)], to="")
    table = watched(scenario)
    async with scenario.worker("heir", table=table, snapshots=SnapshotCache()):
        ended = await scenario.ended()

    assert JobStatus.SUCCEEDED is ended.status
    assert {REF.pk: READS} == table.reads
    assert {0, 1, 2} == set((await certificate(scenario)).results)
