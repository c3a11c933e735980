"""The second phase of a cancel: bring every chunk of the job to its end.

What nobody works on is cancelled at once; a holder is asked to let go, and does so at
its next look. Safe to repeat: the operator sweeps once, every reconciler again.
"""

from __future__ import annotations

from piecework.finish import finish_cancel
from piecework.model import ChunkStatus, Job
from piecework.runtime import Runtime
from piecework.store.cancels import cancel_unclaimed, request_cancel
from piecework.store.census import all_chunks


async def sweep(rt: Runtime, job: Job) -> tuple[int, int]:
    """Cancel and ask; return how many chunks were cancelled, and how many asked."""
    cancelled = asked = 0
    async for chunk in all_chunks(rt.table, job.ref, job.chunks):
        # A life that began since the job was looked at was cancelled by nobody.
        if chunk.on_its_way_back or chunk.gen > job.gen:
            continue
        if chunk.status is ChunkStatus.RUNNING and "cancel_requested" not in chunk.item:
            asked += await request_cancel(rt.table, chunk)
        elif chunk.status in {ChunkStatus.PENDING, ChunkStatus.WAITING}:
            cancelled += await cancel_unclaimed(rt.table, chunk, rt.clock())
    await finish_cancel(rt, job.ref)
    return cancelled, asked
