"""What is written of a job's story stays as it was written."""

from __future__ import annotations

from random import Random

from tests.store.conftest import Store


async def test_an_event_is_never_written_over(store: Store) -> None:
    for actor in ("first", "second"):
        store.rng = Random(1)  # draws the same token: the same key
        await store.jobs.record(store.ref, "cancelled", {"actor": actor})
    events = await store.jobs.events(store.ref)
    assert [event.facts["actor"] for event in events] == ["first"]
