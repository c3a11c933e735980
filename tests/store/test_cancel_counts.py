"""The counts of what the reconciler did for a cancel, with the real sweep."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.domain.model import JobStatus, iso
from piecework.reconciler.jobs import finish_cancelling
from tests.store.conftest import NOW, SETTINGS, Store
from tests.store.deployment import pass_context

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
    await store.put_chunk(**state)
    # Another chunk still compensates, so that the job does not end.
    other = store.ref.chunk(4)
    await store.put(other.pk, other.sk, chunk=4, **COMPENSATES)
    job = await store.put_job(JobStatus.CANCELLING, cancelled_at=iso(NOW))
    acts = await finish_cancelling(pass_context(store, seen), job, sweeps=True)
    assert counts == {name: count for name, count in acts.items() if count}
