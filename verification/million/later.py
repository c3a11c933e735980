"""Let a reconciler delete the jobs whose retention is over, at a later time.

    python -m verification.million.later 90.1

Its clock is ahead by so many days, and then by half a day more, for the second sweep.
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import replace

import structlog

from piecework.domain.retention import DAY_S
from piecework.reconciler.loop import Reconciler
from piecework.runtime import connect
from piecework.settings import load_settings
from piecework.store.deletions import SECOND_SWEEP_S


async def delete_expired(days: float) -> None:
    """Run the passes of a deletion: it is begun, carried out, and swept again."""
    log = structlog.wrap_logger(structlog.ReturnLogger())
    async with connect(load_settings()) as rt:
        for ahead_s in (days * DAY_S, days * DAY_S + SECOND_SWEEP_S + 1.0):
            later = replace(rt, clock=lambda s=ahead_s: time.time() + s)
            for _ in range(2):
                await Reconciler(later, log).run_pass()


if __name__ == "__main__":
    asyncio.run(delete_expired(float(sys.argv[1])))
