"""How much of its slots a worker leaves unused by short chunks, in virtual time.

The whole worker runs, and no code of it takes time: a slot is idle only while a request
is on its way, or while the worker waits on purpose.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final
from unittest.mock import patch

from pydantic import BaseModel

from piecework import Context, Pipeline, Stage
from piecework_simulation.engine import network
from tests.unit.orchestrator.simulated import Simulated, simulate

#: The seconds of a chunk, the slots of the worker, and the chunks of the job.
CHUNK_S, SLOTS, CHUNKS = 0.1, 16, 1_000
#: The longest time of a request, or of its answer, on its way: that of an emulator on
#: the same machine, and that of DynamoDB in the same region. Both together take as long
#: on average.
NEAR_S, REGION_S = 0.002, 0.005


class Nap(BaseModel):
    """A chunk."""


def unused_percent(way_s: float) -> float:
    """Return the percentage of the time of the slots in which no stage ran.

    It counts from the first start until no chunk is left for a free slot.
    """
    spans = list[tuple[float, float]]()

    async def nap(_: Context[Nap]) -> None:
        now = asyncio.get_running_loop().time
        began = now()
        await asyncio.sleep(CHUNK_S)
        spans.append((began, now()))

    napping = Pipeline("napping", payload=Nap, stages=[Stage(nap)])

    async def drain(here: Simulated) -> None:
        await here.submit(napping, [Nap()] * CHUNKS)
        await here.ended()

    with patch.object(network, "HOP_S", way_s):
        simulate(drain, [napping], max_chunks=SLOTS)
    begins = sorted(began for began, _ in spans)
    first, last = begins[0], begins[-2 * SLOTS]
    used = sum(min(ended, last) - began for began, ended in spans if began < last)
    return 100.0 * (1.0 - used / (SLOTS * (last - first)))


near_percent: Final = partial(unused_percent, NEAR_S)
region_percent: Final = partial(unused_percent, REGION_S)
