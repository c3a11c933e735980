"""The effects whose requests may still be executed, though their worker is lost.

The next claim asks, or gives up, only when no request of an earlier claim can be
executed any more: until then its chunk is RUNNING, and does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from piecework.domain.chunk import Chunk
from piecework.domain.effect import Effect
from piecework.domain.moments import iso, moment
from piecework.domain.rows import EffectRow
from piecework.domain.states import ChunkStatus
from piecework.reading import Reading
from piecework.store.checkpoints import read_effects
from piecework.store.effects import INTENT, UNKNOWN

#: The effects that are not simply sent again, with the key that the provider knows.
WAITED_FOR: Final = frozenset({Effect.NON_IDEMPOTENT, Effect.LOOKUP})


@dataclass(frozen=True, slots=True)
class InFlight:
    """An effect of an earlier claim that the present claim of its chunk waits for.

    Attributes:
        until: When its request can no longer be executed, ISO 8601.
    """

    chunk: Chunk
    effect: EffectRow
    until: str


def may_wait(chunk: Chunk) -> bool:
    """Return whether a chunk may wait for a request of an earlier claim of it."""
    begins = chunk.started_at == chunk.claimed_at
    return chunk.status is ChunkStatus.RUNNING and begins and chunk.fence > 1


def waited_for(
    chunk: Chunk, rows: Iterable[EffectRow], now: float
) -> Iterator[InFlight]:
    """Yield the effects that the claim of a RUNNING chunk waits for now."""
    for row in rows:
        doubtful = row.state in {INTENT, UNKNOWN} and row.effect in WAITED_FOR
        if doubtful and row.fence is not None and row.fence < chunk.fence:
            # The worker of the lost claim may have sent it until the next one began.
            until = moment(chunk.claimed_at) + (row.max_duration_s or 0.0)
            if until > now:
                yield InFlight(chunk, row, iso(until))


async def read_in_flight(rt: Reading, chunks: Sequence[Chunk]) -> list[InFlight]:
    """Return the effects that these chunks wait for: one request for each chunk."""
    found: list[InFlight] = []
    for chunk in chunks:
        rows = await read_effects(rt.table, chunk.ref)
        found += waited_for(chunk, rows, rt.clock())
    return found
