"""A chunk is taken up again only as it was seen to have ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from piecework.domain.moments import iso
from piecework.domain.outcome import Released
from piecework.domain.states import JobStatus
from piecework.saga.compensation import CANCEL_CODE
from piecework.store.reopen import Reopening, Restart, reopen_chunk
from piecework.store.settlements import Calls
from tests.store.conftest import NOW, Store


@pytest.fixture(autouse=True)
async def _a_job_being_resumed(store: Store) -> None:
    await store.put_job(JobStatus.REOPENING, gen=5)


@pytest.mark.parametrize(
    ("seen", "now"), [("DEAD", "CANCELLED"), ("CANCELLED", "DEAD")]
)
async def test_a_chunk_that_ended_otherwise_is_not_reopened(
    store: Store, seen: str, now: str
) -> None:
    chunk = await store.put_chunk(status=seen)
    await store.change(status=now)
    before = await store.item()
    assert await reopen_chunk(store.table, chunk, 5) is False
    assert before == await store.item()


@pytest.mark.parametrize(
    ("status", "gen"),
    [(JobStatus.CANCELLED, 5), (JobStatus.RUNNING, 5), (JobStatus.REOPENING, 6)],
)
async def test_a_late_reopen_takes_nothing_up_under_a_job_that_moved_on(
    store: Store, status: JobStatus, gen: int
) -> None:
    chunk = await store.put_chunk(status="CANCELLED")
    await store.put_job(status, gen=gen)
    assert (False, {}) == await store.does(reopen_chunk(store.table, chunk, 5))


async def test_a_new_generation_has_all_attempts_and_waits_first(
    store: Store,
) -> None:
    names = (
        "releases",
        "takeovers",
        "deferrals",
        "stage_deferrals",
        "outages",
        "exhaustions",
    )
    spent: dict[str, Any] = dict.fromkeys((*names, "recoveries", "redispatches"), 9)
    spent |= {
        "breaker_deferrals": 9,
        "budget_deferrals": 9,
        "breaker_since": iso(NOW),
        "failed_probes": 2,
    }
    chunk = await store.put_chunk(status="DEAD", attempts=3, fence=7, **spent)
    await store.put_job(JobStatus.REOPENING, gen=5)
    assert await reopen_chunk(store.table, chunk, 5) is True
    item = await store.item()
    assert (0, 7, 1) == (item["attempts"], item["fence"], item["replays"])
    assert set() == spent.keys() & item.keys()


async def test_a_new_generation_remembers_the_claim_that_ended_the_last_one(
    store: Store,
) -> None:
    times = {"claimed_at": iso(NOW - 9), "ended_at": iso(NOW - 2)}
    facts = {"attempts": 2, "ended_by": "w1", "error_code": "llm.content.filtered"}
    chunk = await store.put_chunk(status="DEAD", fence=2, **times, **facts)
    assert await reopen_chunk(store.table, chunk.to_reopen(), 5) is True
    (claim,) = (await store.item())["history"]
    assert claim == {
        "gen": 2,
        "attempt": 2,
        "worker": "w1",
        "from": times["claimed_at"],
        "to": times["ended_at"],
        "end": "dead",
        "code": "llm.content.filtered",
    }


async def test_a_cancelled_chunk_does_not_keep_the_code_of_its_cancel(
    store: Store,
) -> None:
    chunk = await store.put_chunk(status="CANCELLED", error_code=CANCEL_CODE)
    assert await reopen_chunk(store.table, chunk, 5) is True
    assert "error_code" not in await store.item()


async def test_a_chunk_that_ended_in_a_generation_is_not_reopened_in_it(
    store: Store,
) -> None:
    chunk = await store.put_chunk(status="DEAD", gen=5, attempts=3, fence=7)
    await store.put_job(JobStatus.REOPENING, gen=5)
    assert await reopen_chunk(store.table, chunk, 5) is False
    assert (await store.item())["status"] == "DEAD"


async def test_stages_that_run_again_are_named_no_more_and_the_others_stay(
    store: Store,
) -> None:
    first, second = {"fence": 1, "value": "1"}, {"fence": 2, "value": "2"}
    stages = {"first": first, "second": second}
    chunk = await store.put_chunk(status="DEAD", stage="third", stages=stages)
    restart = Restart("second", {"first": first}, repeats=True)
    how = Reopening(restart=restart)
    for status, gen in ((JobStatus.RUNNING, 5), (JobStatus.REOPENING, 6)):
        await store.put_job(status, gen=gen)
        written, _ = await store.does(reopen_chunk(store.table, chunk, 5, how))
        assert (written, stages) == (False, (await store.item())["stages"])
    await store.put_job(JobStatus.REOPENING, gen=5)
    assert await reopen_chunk(store.table, chunk, 5, how) is True
    item = await store.item()
    assert ("second", {"first": first}) == (item["stage"], item["stages"])
    assert (5, "PENDING") == (item["repeats_in_gen"], item["status"])
    # A second operator has read the same, and changes nothing any more.
    late = Reopening(restart=Restart("first", {}))
    assert await reopen_chunk(store.table, chunk, 5, late) is False
    assert item == await store.item()


async def test_a_released_recovery_claim_returns_no_attempt(store: Store) -> None:
    claim = replace(await store.running(attempts=3, recoveries=1), is_recovery=True)
    assert await store.settlements.release(claim, Released(), calls=Calls(0)) is True
    assert (await store.item())["attempts"] == 3
