"""Read some chunks of a job that stand for the others.

A view of a large job takes as many requests at any size. So it reads chunks at random
from equal parts of the job, a hundred a request. They are the same ones at each read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Final

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.refs import ChunkRef
from piecework.reading import Reading
from piecework_orchestrator.reading.calls_so_far import CallsSoFar

#: Chunks of a sample: three requests. If chunks differ by as much as they use, a sum is
#: within 6 % in two of three cases.
MOST_SAMPLED: Final = 300


@dataclass(frozen=True, slots=True)
class ChunkSample:
    """Chunks that stand for those of some groups.

    Attributes:
        drawn: The sample.
        of: For how many chunks it stands.
        whole: The chunks of other groups, each for itself.
    """

    drawn: Sequence[Chunk]
    of: int
    whole: Sequence[Chunk] = ()

    @property
    def weight(self) -> float:
        """For how many chunks each of the sample stands."""
        return self.of / len(self.drawn) if self.drawn else 1.0

    @property
    def exact(self) -> bool:
        """Whether all chunks were read."""
        return len(self.drawn) == self.of

    @property
    def number(self) -> int:
        """How many chunks were read."""
        return len(self.drawn) + len(self.whole)

    @property
    def calls(self) -> CallsSoFar:
        """The calls of all, those of the sample as often as it stands for others."""
        return CallsSoFar.of(self.whole).plus(CallsSoFar.of(self.drawn), self.weight)


def draw(job: Job, groups: Sequence[int], most: int) -> list[ChunkRef]:
    """Return chunks of some groups: one at random of each of so many equal parts."""
    total = sum(keys.partition_size(group, job.chunks) for group in groups)
    wanted, rng = min(most, total), Random(f"{job.ref} {job.gen}")
    bounds = [place * total // wanted for place in range(wanted + 1)] if wanted else []
    places = [rng.randrange(*pair) for pair in pairwise(bounds)]
    size = keys.PARTITION_SIZE  # only the last group of a job may have fewer chunks
    numbers = [groups[place // size] * size + place % size for place in places]
    return [job.ref.chunk(number) for number in numbers]


async def read_sample(
    rt: Reading, job: Job, groups: Sequence[int], whole: Sequence[Chunk] = ()
) -> ChunkSample:
    """Read a sample of some groups, in order; `whole`: chunks of others, read before.

    Raises:
        SchemaTooNewError: A newer version wrote a chunk.
    """
    total = sum(keys.partition_size(group, job.chunks) for group in groups)
    drawn = draw(job, sorted(groups), MOST_SAMPLED)
    return ChunkSample(await read_each(rt, drawn), total, whole)


async def read_each(rt: Reading, refs: Sequence[ChunkRef]) -> list[Chunk]:
    """Read chunks by their numbers, a hundred a request; one that is gone is left out.

    Raises:
        SchemaTooNewError: A newer version wrote a chunk.
    """
    found = await rt.table.get_many((ref.pk, ref.sk) for ref in refs)
    read = ((ref, found.get((ref.pk, ref.sk))) for ref in refs)
    return [Chunk.read(ref, item) for ref, item in read if item is not None]
