"""What is written of a job's story stays as it was written."""

from __future__ import annotations

from random import Random

import pytest

from piecework.domain.states import JobStatus
from tests.store.conftest import Store


class SameKeys(Random):
    """Draws the same token for the key of each event."""

    def getrandbits(self, k: int) -> int:
        return 7 if k == 32 else super().getrandbits(k)


async def test_an_event_is_never_written_over(store: Store) -> None:
    await store.put_job(JobStatus.RUNNING)
    store.rng = SameKeys(1)
    for actor in ("first", "second"):
        await store.jobs.record(store.ref, "cancelled", {"actor": actor})
    events = await store.jobs.events(store.ref)
    assert [event.facts["actor"] for event in events] == ["first"]


@pytest.mark.parametrize("status", [JobStatus.DELETING, JobStatus.DELETED])
async def test_a_late_event_leaves_no_row_of_a_deleted_job(
    store: Store, status: JobStatus
) -> None:
    await store.put_job(status)
    await store.jobs.record(store.ref, "cancelled", {"actor": "late"})
    assert await store.jobs.events(store.ref) == []
