"""Give dead letters up: somebody decided that their chunks stay dead."""

from __future__ import annotations

from collections.abc import Sequence

from piecework.model import JobRef
from piecework.runtime import Runtime
from piecework.store.dead_letters import Closing, DeadLetters
from piecework.store.table import Item


async def discard(
    rt: Runtime, ref: JobRef, letters: Sequence[Item], by: Closing
) -> int:
    """Discard letters of a job; return how many were still open.

    They count as open no more, and neither a redrive nor a resume takes their chunks
    up. The job stays what it is.
    """
    store = DeadLetters(rt.dead_letters, rt.settings, rt.clock)
    done = sum([await store.discard(letter, by) for letter in letters])
    noted = {"actor": by.actor, "reason": by.reason, "letters": done}
    await rt.jobs.record(ref, "discarded", noted)
    return done
