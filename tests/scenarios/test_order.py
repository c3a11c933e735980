"""Guarantee: the chunks of an order key run in order; a dead letter stops its key."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.domain.priority import Priority
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.errors import StoreError
from piecework.reconciler.loop import Reconciler
from piecework.store.dead_letters import Closing
from piecework.store.table import ItemWrite, Table
from piecework_orchestrator.dead_letters.redrive import discard
from piecework_orchestrator.operate.cancel import cancel
from piecework_orchestrator.operate.retry import RetryRequest, retry
from piecework_orchestrator.reading.chunk_documents import read_chunks
from piecework_orchestrator.reading.job_documents import explain
from piecework_worker.next_chunks import NextChunks
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Posting, posting

JOB = JobRef("default", "job-1")


def postings(accounts: int, each: int, **trouble: str) -> list[Posting]:
    """Return chunks that alternate between accounts a0, a1, …; some make trouble."""
    return [
        Posting(n=n, account=f"a{n % accounts}", trouble=trouble.get(f"n{n}", ""))
        for n in range(accounts * each)
    ]


def require_order(scenario: Scenario) -> None:
    """Fail unless each account was posted in order, one chunk after another."""
    for account in {line[1] for line in scenario.ledger} - {"-"}:
        lines = [line for line in scenario.ledger if line[1] == account]
        numbers = [int(line[2]) for line in lines]
        ended = [int(line[2]) for line in lines if line[0] == "end"]
        assert numbers == sorted(numbers)  # so no chunk began before another's end
        assert ended == sorted(set(ended))


async def test_the_chunks_of_a_key_run_in_order_beside_other_keys(
    scenario: Scenario,
) -> None:
    items = [*postings(4, 4, n4="once", n5="once"), Posting(n=99), Posting(n=98)]
    await scenario.submit(
        posting, [i.model_copy(update={"seconds": 0.1}) for i in items]
    )
    async with scenario.worker("w1"), scenario.worker("w2"):
        ended = await scenario.ended()

    chunks = await scenario.chunks()
    assert ended.status is JobStatus.SUCCEEDED
    require_order(scenario)
    assert scenario.happened("end") == 18
    first = [line[1] for line in scenario.ledger if line[0] == "begin"][:4]
    assert len(set(first)) > 1  # keys run beside one another
    assert {chunk.attempts for chunk in chunks} == {1, 2}
    assert all(chunk.fence == chunk.attempts for chunk in chunks)  # none claimed early


async def test_an_order_key_is_stored_as_a_hash(scenario: Scenario) -> None:
    items = [
        Posting(n=n, account="Erika Mustermann", trouble="permanent") for n in (1, 2)
    ]
    job, _ = await scenario.submit(posting, items)
    async with scenario.worker(), scenario.reconciler():
        await scenario.ended()
    rows = [row async for row in scenario.rt.table.scan()]
    rows += [row async for row in scenario.rt.dead_letters.scan()]
    manifest = await scenario.rt.objects.get(job.manifest)
    assert "Mustermann" not in f"{rows}{manifest!r}"
    keys = {chunk.order_key for chunk in await scenario.chunks()}
    assert [len(key) for key in keys] == [32]


async def test_a_dead_letter_stops_its_key_until_it_is_skipped(
    scenario: Scenario,
) -> None:
    rt = scenario.rt
    await scenario.submit(posting, postings(2, 4, n2="permanent"))
    async with scenario.worker():  # without a reconciler the job goes on
        await scenario.until(lambda: scenario.happened("end") == 5)
        job = await scenario.job()
        rows = [row async for row in read_chunks(rt, job, "PENDING")]
        found = (await explain(rt, job))["findings"]
        letters = await scenario.letter_rows()
        assert await discard(rt, JOB, letters, Closing("me", "it is obsolete")) == 1
        ended = await scenario.ended()

    assert [(row["chunk"], row["wait"]["reason"]) for row in rows] == [
        (4, "order_stopped"),
        (6, "order_stopped"),
    ]
    assert rows[0]["wait"]["text"] == "order stopped"
    assert (found[0]["code"], found[0]["chunks"]) == ("order.stopped", 2)
    assert (ended.status, ended.outcomes) == (
        JobStatus.PARTIAL,
        {"DEAD": 1, "SUCCEEDED": 7},
    )
    require_order(scenario)


@pytest.mark.parametrize("way", ["redrive", "skip and retry"])
async def test_a_job_ends_beside_a_stopped_key_which_goes_on_later(
    scenario: Scenario, way: str
) -> None:
    rt = scenario.rt
    await scenario.submit(posting, postings(2, 4, n2="permanent", n3="permanent"))
    async with scenario.worker(), scenario.reconciler():
        ended = await scenario.ended()
        stopped = await scenario.chunks()
        scenario.fix()
        if way == "redrive":
            assert await scenario.redrive() == (2, 2)
        else:
            letters = await scenario.letter_rows()
            assert await discard(rt, JOB, letters, Closing("me", "why")) == 2
            assert await retry(rt, RetryRequest(JOB, "me", "go on")) == (4, 2)
        again = await scenario.ended()

    counts = {"CANCELLED": 4, "DEAD": 2, "SUCCEEDED": 2}
    assert (ended.status, ended.outcomes) == (JobStatus.PARTIAL, counts)
    assert {c.error_code for c in stopped if c.status is ChunkStatus.CANCELLED} == {
        "runtime.order.stopped"
    }
    dead = 0 if way == "redrive" else 2
    assert (again.outcomes or {})["SUCCEEDED"] == 8 - dead
    assert again.gen == 2
    require_order(scenario)


async def test_the_chunks_behind_a_dead_letter_count_as_tolerated(
    scenario: Scenario,
) -> None:
    await scenario.submit(posting, postings(2, 4, n2="permanent"), tolerate="3")
    async with scenario.worker(), scenario.reconciler():
        ended = await scenario.ended()
    counts = {"CANCELLED": 2, "DEAD": 1, "SUCCEEDED": 5}
    assert (ended.status, ended.outcomes) == (JobStatus.SUCCEEDED, counts)


async def test_a_retry_of_a_cancelled_job_keeps_the_order(scenario: Scenario) -> None:
    rt = scenario.rt
    items = [i.model_copy(update={"seconds": 0.3}) for i in postings(3, 4)]
    await scenario.submit(posting, items)
    async with scenario.worker(), scenario.reconciler():
        await scenario.until(lambda: scenario.happened("end") > 3)
        await cancel(rt, JOB, actor="me", reason="enough", compensate=False)
        await scenario.ended()
        await retry(rt, RetryRequest(JOB, "me", "go on"))
        again = await scenario.ended()
    assert (again.status, again.outcomes) == (JobStatus.SUCCEEDED, {"SUCCEEDED": 12})
    require_order(scenario)


@pytest.mark.parametrize("priority", [Priority.NORMAL, Priority.LOW])
async def test_a_large_job_draws_only_the_first_chunks_of_its_keys(
    scenario: Scenario, priority: Priority
) -> None:
    await scenario.submit(posting, postings(70, 2), priority=priority)
    waiting = await scenario.rt.work.default.depth()
    async with scenario.worker(), scenario.reconciler():
        ended = await scenario.ended()
    assert waiting == (64 if priority is Priority.NORMAL else 1)
    assert ended.outcomes == {"SUCCEEDED": 140}
    assert {chunk.fence for chunk in await scenario.chunks()} == {1}
    require_order(scenario)


class DiesBeforeUnblock(Table):
    """The table of a worker that dies between a settlement and the next chunk."""

    async def update(self, action: ItemWrite, returning: str = "ALL_NEW") -> Any:
        """Refuse only the write that unblocks a chunk."""
        if "REMOVE blocked_by" in action.update:
            raise StoreError("cut off")
        return await super().update(action, returning)


class DiesBeforeStart(NextChunks):
    """The next chunks of a worker that dies before it starts them."""

    async def add(self, *_: Any) -> None:
        """Forget the chunk."""


@pytest.mark.parametrize("at", ["before the unblock", "before the start"])
async def test_a_worker_that_dies_before_the_next_chunk_is_repaired(
    scenario: Scenario, at: str
) -> None:
    rt = scenario.rt
    await scenario.submit(posting, postings(1, 2))
    blocked = at == "before the unblock"
    table = DiesBeforeUnblock(rt.table.client, rt.table.name, rt.table.rng)
    parts: dict[str, Any] = {"table": table} if blocked else {}
    async with scenario.worker("dies", **parts) as worker:
        worker.services.intake.next_chunks = DiesBeforeStart()
        await scenario.until(lambda: scenario.happened("end") == 1)

        async def has_died() -> bool:
            chunks = await scenario.chunks()
            settled = chunks[0].status is ChunkStatus.SUCCEEDED
            return settled and blocked is (chunks[1].blocked_by is not None)

        await scenario.until(has_died)
    acts = await Reconciler(scenario.later(3600), scenario.log).run_pass()
    assert acts["unblocked" if blocked else "redispatched"] == 1
    async with scenario.worker("heir"), scenario.reconciler():
        ended = await scenario.ended()
    assert ended.status is JobStatus.SUCCEEDED
    require_order(scenario)
