"""Empty the dead-letter queue: a message there says nothing that the record does not.

SQS moves a message after ten receives, whatever they were: losers' looks, workers
that died. The record knows which. A chunk that still has work to do is sent again,
with a fresh count; whoever claims it undoes and buries it if its attempts are spent.
The message goes once that is done.
"""

from __future__ import annotations

from collections import Counter

import structlog

from piecework import telemetry
from piecework.model import Chunk, ChunkRef
from piecework.queue import BATCH, Delivery, Message
from piecework.runtime import Runtime
from piecework.store.dead_letters import DeadLetters

#: Seconds that a message is hidden while it is looked at.
HIDE_S = 30.0


async def drain(rt: Runtime, log: structlog.stdlib.BoundLogger) -> Counter[str]:
    """Take what lies in the dead-letter queue, and put each thing where it belongs."""
    acts: Counter[str] = Counter()
    while deliveries := await rt.dead_letter_queue.receive(
        BATCH, wait_s=0, hide_s=HIDE_S
    ):
        placed = []
        for delivery in deliveries:
            try:
                acts[await place(rt, delivery, log)] += 1
            except Exception:
                # It shows again; the others need not wait for it.
                log.exception("reconcile.place_failed", message_id=delivery.message_id)
                acts["failed"] += 1
            else:
                placed.append(delivery.receipt)
        await rt.dead_letter_queue.delete(placed)
    return acts


async def place(
    rt: Runtime, delivery: Delivery, log: structlog.stdlib.BoundLogger
) -> str:
    """Do with one message what its chunk's record asks for."""
    message = delivery.message
    if delivery.newer:
        # Ten receives, and no newer worker was about. Its record sends another.
        return await quarantine(rt, delivery, "runtime.message.newer", log)
    if message is None:
        return await quarantine(rt, delivery, "runtime.message.malformed", log)
    item = await rt.table.get(message.ref.pk, message.ref.sk)
    if item is None and await only_tells(rt, message.ref):
        return "dead-letter queue: notice"
    if item is None:
        return await quarantine(rt, delivery, "runtime.message.orphan", log)
    chunk = Chunk.read(message.ref, item)
    if chunk.gen > message.gen or chunk.status.terminal:
        return "dead-letter queue: chunk had ended"
    await rt.work.send([Message.about(chunk.ref, chunk.gen)])
    return "dead-letter queue: sent again"


async def only_tells(rt: Runtime, ref: ChunkRef) -> bool:
    """Say whether a message goes to no chunk, but for the notices of a job.

    They need no message: the reconciler sends another.
    """
    job = await rt.jobs.read(ref.of) if ref.is_join else None
    return job is not None and job.notifies


async def quarantine(
    rt: Runtime, delivery: Delivery, code: str, log: structlog.stdlib.BoundLogger
) -> str:
    """Set a message aside that we can do nothing with."""
    letters = DeadLetters(rt.dead_letters, rt.settings, rt.clock)
    await letters.quarantine(delivery, code)
    telemetry.emit(
        log, "message.quarantined", message_id=delivery.message_id, error_code=code
    )
    return "dead-letter queue: quarantined"
