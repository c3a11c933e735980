"""A large job is counted by its tallies: exactly, and in few requests at any size."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from piecework.domain import keys
from piecework.domain.batch import Member, pack_members
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus
from piecework.settings import Settings
from piecework.store.completion import FULL_BLOCKS, FULL_GROUPS
from piecework.store.table import GETS_AT_ONCE
from piecework_orchestrator.reading import job_documents, large_jobs, samples
from piecework_orchestrator.reading.job_documents import job_document
from piecework_orchestrator.reading.large_jobs import (
    ENDED,
    MOST_GROUPS,
    count_ended,
    count_large,
    find_places,
    sample_large,
)
from tests.unit.orchestrator.cli.deployment import Deployment

REF = JobRef("default", "large")
SIZE = 4


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a group have four chunks, and a block four groups."""
    monkeypatch.setattr(keys, "PARTITION_SIZE", SIZE)
    monkeypatch.setattr(keys, "BLOCK_SIZE", SIZE)
    monkeypatch.setattr(job_documents, "MAX_READ_CHUNKS", 2 * SIZE)


class World:
    """A job of many chunks, each with a status, as workers would have left it."""

    def __init__(
        self, chunks: int, drawn: int, open_: dict[int, str], dead: set[int]
    ) -> None:
        self.here = Deployment()
        self.chunks = chunks
        self.statuses = {
            n: open_.get(n, "DEAD" if n in dead else "SUCCEEDED")
            if n < drawn
            else "PENDING"
            for n in range(chunks)
        }
        for number, status in self.statuses.items():
            facts: dict[str, Any] = {"ended_at": ""}
            if ChunkStatus(status).ended:
                facts = {"calls": 3, "call_usage": {"paid": {"m": [3, 30, 6, 900]}}}
            elif status == "RUNNING":
                facts["claim_usage"] = {"paid": {"m": [2, 20, 4, 600]}}
            self.here.chunk("large", number, status, **facts)
        for number in dead:
            self.here.letter("large", number)
        groups = range(keys.partition_count(chunks))
        full = {group for group in groups if self._tally(group)}
        blocks = range(keys.block_count(chunks))
        full_blocks = {block for block in blocks if self._block(block, full)}
        on_job = {FULL_GROUPS: full} if len(blocks) == 1 else {FULL_BLOCKS: full_blocks}
        facts = {name: found for name, found in on_job.items() if found}
        self.here.job("large", "RUNNING", chunks, backlog_start=0, **facts)
        if drawn < chunks:
            self.here.table.add(
                keys.ACTIVE_PK,
                keys.backlog_sk("", "default", "large"),
                gen=1,
                next_chunk=drawn,
                chunks=chunks,
                tenant="default",
                job="large",
                priority="normal",
            )

    def let_wait(self, models: int) -> None:
        """Let the first running chunk wait for batches of the first of some models."""
        waits = {"blocked_on": "batch", "retry_at": iso(2e9), "ended_at": ""}
        self.here.chunk("large", 2, "WAITING", **waits)
        for number in range(models):
            place = "default", f"m{number}"
            facts = {"model": f"m{number}", "provider": "p", "next_at": iso(2e9)}
            self.here.table.add(keys.ACTIVE_PK, keys.collector_sk(*place), **facts)
            row = {
                "tenant": "default",
                "digest": "d",
                "batch": "b",
                "rows": 5,
                "model": "m",
                "provider": "p",
                "phase": "CREATED",
                "planned_at": iso(1.9e9),
                "until": iso(2e9),
                "next_at": iso(2e9),
                "members": pack_members([Member("large", 2, 1, 1, 1, 5)]),
            }
            self.here.table.add(keys.batches_pk(*place), keys.batch_sk("d"), **row)

    def _tally(self, group: int) -> bool:
        first, size = group * SIZE, keys.partition_size(group, self.chunks)
        ended = {
            number
            for number in range(first, first + size)
            if ChunkStatus(self.statuses[number]).ended
        }
        if ended:
            pk = keys.partition_pk("default", "large", group)
            self.here.table.add(pk, keys.TALLY_SK, ended_chunks=ended)
        return len(ended) == size

    def _block(self, block: int, full: set[int]) -> bool:
        size = keys.block_size(block, self.chunks)
        own = full & set(range(block * SIZE, block * SIZE + size))
        if own:
            pk = keys.block_pk("default", "large", block)
            self.here.table.add(pk, keys.BLOCK_SK, full_groups=own)
        return len(own) == size

    @property
    def rt(self) -> Any:
        """The runtime, for reading."""
        return self.here.runtime(Settings())

    async def job(self) -> Job:
        """The job."""
        found = await self.rt.jobs.read(REF)
        assert found is not None
        return found

    @property
    def counts(self) -> Counter[str]:
        """The number of chunks by status."""
        return Counter(self.statuses.values())


@pytest.mark.parametrize("chunks", [10, 16, 17, 64, 95])
@pytest.mark.parametrize("seed", range(6))
async def test_counts_are_those_of_all_chunks(chunks: int, seed: int) -> None:
    rng = Random(f"{chunks} {seed}")
    drawn = rng.randrange(chunks + 1)
    last = range(max(0, drawn - 6), drawn)
    open_ = {n: rng.choice(["RUNNING", "WAITING"]) for n in last if rng.random() < 0.6}
    if drawn > SIZE:
        open_[rng.randrange(SIZE)] = "RUNNING"
    ended = [n for n in range(drawn) if n not in open_]
    world = World(chunks, drawn, open_, set(rng.sample(ended, len(ended) // 5)))

    counted = await count_large(world.rt, await world.job())

    assert counted.exact
    assert world.counts == counted.by_status
    assert len(counted.letters.dead) == world.counts["DEAD"]
    done = world.counts["SUCCEEDED"] + world.counts["DEAD"]
    places = await find_places(world.rt, await world.job())
    assert done == await count_ended(world.rt, await world.job(), places)


async def test_many_begun_groups_are_sampled_and_the_counts_are_estimates() -> None:
    chunks = 20 * SIZE
    world = World(
        chunks, chunks, dict.fromkeys(range(0, chunks, SIZE), "RUNNING"), set()
    )

    counted = await count_large(world.rt, await world.job())

    assert not counted.exact
    assert MOST_GROUPS * SIZE == len(counted.chunks)
    assert world.counts == counted.by_status


async def test_more_letters_than_are_read_are_a_lower_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(large_jobs, "MOST_LETTERS", 3)
    world = World(40, 40, {}, set(range(8)))

    counted = await count_large(world.rt, await world.job())

    assert not counted.exact
    assert 3 == counted.by_status["DEAD"]
    assert 40 == counted.by_status.total()


async def test_a_discarded_letter_leaves_its_chunk_dead_a_redriven_does_not() -> None:
    world = World(40, 40, {}, {1, 2, 3})
    world.here.letter("large", 2, state="DISCARDED")
    world.here.letter("large", 3, state="REDRIVEN")

    counted = await count_large(world.rt, await world.job())

    assert (2, 1) == (counted.by_status["DEAD"], counted.letters.open)


async def test_during_a_cancel_a_tally_does_not_say_how_its_chunks_ended() -> None:
    world = World(40, 40, {38: "RUNNING"}, set())
    world.here.table.rows[REF.pk, keys.META_SK]["status"] = "CANCELLING"

    counted = await count_large(world.rt, await world.job())

    assert {ENDED: 36, "SUCCEEDED": 3, "RUNNING": 1} == counted.by_status


@pytest.mark.parametrize("most", [5, 1_000])
async def test_a_sample_stands_for_the_calls_of_all(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "MOST_SAMPLED", most)
    world = World(80, 60, {2: "RUNNING", 59: "RUNNING"}, {7})
    job = await world.job()

    sample = await sample_large(world.rt, job, await count_large(world.rt, job))

    facts = sample.calls.facts
    assert (58 * 3 + 2 * 2, 2 * 2) == (facts["paid"], facts["running"])
    assert (58 * 30 + 2 * 20, 58 * 6 + 2 * 4) == (
        facts["tokens_in"],
        facts["tokens_out"],
    )
    assert (most == 1_000, 60 if most == 1_000 else 13) == (sample.exact, sample.number)
    assert sample == await sample_large(world.rt, job, await count_large(world.rt, job))


async def test_each_part_of_a_job_has_a_chunk_in_the_sample() -> None:
    world = World(95, 95, {}, set())
    job = await world.job()
    drawn = [ref.chunk for ref in samples.draw(job, range(24), 19)]
    assert [number // 5 for number in drawn] == [*range(19)]
    every = [ref.chunk for ref in samples.draw(job, range(24), 400)]
    assert every == [*range(95)]
    assert [] == samples.draw(job, [], 400)


@pytest.mark.parametrize("chunks", [200, 1_200])
@pytest.mark.parametrize("batched", [False, True], ids=["calls", "batches"])
async def test_the_document_of_a_job_costs_as_many_requests_at_any_size(
    chunks: int, monkeypatch: pytest.MonkeyPatch, *, batched: bool
) -> None:
    drawn = chunks // 2
    world = World(chunks, drawn, {2: "RUNNING", drawn - 1: "RUNNING"}, {9})
    if batched:
        world.let_wait(3)
    rt, job = world.rt, await world.job()
    requests = Counter[str]()
    for table in (rt.table, rt.dead_letters):
        for name in ("get", "get_many", "query", "first"):
            read = getattr(table, name)

            def counting(*words: Any, read: Any = read, **named: Any) -> Any:
                if read.__name__ == "get_many":
                    words = ([*words[0]],)
                    requests["all"] += -(-len(words[0]) // GETS_AT_ONCE)
                else:
                    requests["all"] += 1
                return read(*words, **named)

            monkeypatch.setattr(table, name, counting)

    document = await job_document(rt, job)

    assert (True, 2 - batched, 1) == (
        document["counts_exact"],
        document["counts"]["RUNNING"],
        document["dead_letters"],
    )
    assert abs(document["calls"]["paid"] - (drawn - 2) * 3 - 4) <= 9
    assert requests["all"] <= 30
    if batched:
        assert document["batch_calls"]["in_batches"] == 5
