"""The counts of a job's cost are added to its row, and dropped after its deletion."""

from __future__ import annotations

import pytest

from piecework.domain import keys
from piecework.domain.model import JobStatus
from piecework.store.costs import AT_ONCE, Costs
from tests.store.conftest import Store


@pytest.mark.parametrize("status", [JobStatus.DELETING, JobStatus.DELETED])
async def test_a_late_count_leaves_no_row_of_a_deleted_job(
    store: Store, status: JobStatus
) -> None:
    await store.put_job(status)

    await Costs(store.table).add(store.ref, "worker", {"op__GetItem__requests": 1000})

    assert {} == await Costs(store.table).of(store.ref)


async def test_counts_are_added_whether_the_row_is_there_or_not(store: Store) -> None:
    await store.put_job(JobStatus.RUNNING)
    counts = {f"count_{n}": 1 for n in range(AT_ONCE + 1)}

    for _ in range(2):
        await Costs(store.table).add(store.ref, "worker", counts)

    row = (await Costs(store.table).of(store.ref))["worker"]
    assert {2} == {row[name] for name in counts}


async def test_a_submit_counts_before_its_job_is_there(store: Store) -> None:
    await Costs(store.table).add(store.ref, "operator", {"requests": 1})

    assert await store.table.get(store.ref.pk, keys.cost_sk("operator"))
