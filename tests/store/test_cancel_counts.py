"""The counts of what the reconciler did for a cancel, with the real sweep."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.domain.chunk import Chunk
from piecework.domain.moments import iso
from piecework.domain.protocols import CancelRequest
from piecework.domain.states import JobStatus
from piecework.jobs.cancellation import CancelSweep
from piecework.reconciler.jobs import finish_cancelling
from tests.store.conftest import NOW, SETTINGS, Store
from tests.store.deployment import pass_context, runtime

LEASE = SETTINGS.lease_s
RUNNING = {"status": "RUNNING", "fence": 4, "renewals": 7, "attempts": 1}
COMPENSATES = {
    "v": 1,
    "status": "WAITING",
    "gen": 2,
    "fence": 1,
    "attempts": 1,
    "stage": "first",
    "direction": "compensating",
    "redispatch_at": iso(NOW + 60),
}
ASKED = {"cancel_requested_at": iso(NOW)}


@pytest.mark.parametrize(
    ("state", "seen", "counts"),
    [
        ({}, LEASE, {"cancelled": 1}),
        ({"status": "WAITING", "fence": 4}, LEASE, {"cancelled": 1}),
        (RUNNING, LEASE - 1, {"cancel requested": 1}),
        ({**RUNNING, **ASKED}, LEASE - 1, {}),
        (RUNNING, LEASE, {"expired lease cancelled": 1}),
        (
            {**RUNNING, "direction": "compensating"},
            LEASE,
            {"expired lease released": 1},
        ),
        ({"status": "SUCCEEDED"}, LEASE, {}),
    ],
    ids=[
        "untouched",
        "waiting",
        "running",
        "running and asked already",
        "its worker is dead",
        "its worker died while it compensated",
        "ended",
    ],
)
async def test_a_cancel_counts_each_chunk_by_what_became_of_it(
    store: Store, state: dict[str, Any], seen: float, counts: dict[str, int]
) -> None:
    item = (await store.put_chunk(**state)).item
    second = store.ref.chunk(2)
    await store.put(second.pk, second.sk, **item | {"chunk": 2})
    # Another chunk still compensates, so that the job does not end.
    other = store.ref.chunk(1)
    await store.put(other.pk, other.sk, chunk=1, **COMPENSATES)
    job = await store.put_job(JobStatus.CANCELLING, cancelled_at=iso(NOW))
    acts = await finish_cancelling(pass_context(store, seen), job, sweeps=True)
    assert counts == {name: count / 2 for name, count in acts.items() if count}
    lost = any(name.startswith("expired lease") for name in counts)
    assert (await store.item()).get("lost_fences") == ({4} if lost else None)


async def test_chunks_that_were_claimed_since_they_were_read_are_requested(
    store: Store,
) -> None:
    """The sweep reads many chunks before it writes the first one."""
    item = (await store.put_chunk(**RUNNING)).item
    refs = [store.ref.chunk(number) for number in (2, 3)]
    for ref in refs:
        await store.put(ref.pk, ref.sk, **item | {"chunk": ref.chunk})
    as_read = [
        Chunk.read(ref, item | {"status": "PENDING", "fence": 0}) for ref in refs
    ]
    sweep = CancelSweep(runtime(store), CancelRequest(iso(NOW), compensate=False))
    await sweep.sweep_all(as_read)
    assert (0, 2) == (sweep.cancelled, sweep.requested)
