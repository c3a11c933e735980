"""Cancel jobs through the product, and print when the cancel began.

Runs in a process of its own: python -m bench.cancelling JOB
"""

from __future__ import annotations

import asyncio
import sys
import time

from piecework.domain.refs import JobRef
from piecework.runtime import connect
from piecework.settings import load_settings
from piecework_orchestrator.operate.cancel import cancel


async def main(*jobs: str) -> None:
    """Cancel these jobs."""
    async with connect(load_settings()) as rt:
        asked = time.monotonic()
        for job in jobs:
            ref = JobRef(rt.settings.tenant, job)
            await cancel(rt, ref, actor="bench", reason="bench")
    sys.stdout.write(f"{asked}\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
