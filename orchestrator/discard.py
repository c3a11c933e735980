"""Discard dead letters: an operator decided that their chunks stay dead."""

from __future__ import annotations

from collections.abc import Sequence

from piecework.model import JobRef
from piecework.runtime import Runtime
from piecework.store.dead_letters import Closing, DeadLetters
from piecework.store.table import Item


async def discard(
    rt: Runtime, ref: JobRef, letters: Sequence[Item], closing: Closing
) -> int:
    """Discard dead letters of a job; return how many of them were still open.

    They no longer count as open, and neither a redrive nor a retry reopens their
    chunks. The status of the job stays as it is.
    """
    store = DeadLetters(rt.dead_letters, rt.settings, rt.clock)
    count = sum([await store.discard(letter, closing) for letter in letters])
    event = {"actor": closing.actor, "reason": closing.reason, "letters": count}
    await rt.jobs.record(ref, "discarded", event)
    return count
