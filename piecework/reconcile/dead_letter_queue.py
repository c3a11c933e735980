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
from piecework.model import Chunk
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
        for delivery in deliveries:
            acts[await place(rt, delivery, log)] += 1
        await rt.dead_letter_queue.delete([d.receipt for d in deliveries])
    return acts


async def place(
    rt: Runtime, delivery: Delivery, log: structlog.stdlib.BoundLogger
) -> str:
    """Do with one message what its chunk's record asks for."""
    message = delivery.message
    if delivery.newer:
        await rt.work.send_body(delivery.body)
        return "dead-letter queue: sent again"
    if message is None:
        return await quarantine(rt, delivery, "runtime.message.malformed", log)
    item = await rt.table.get(message.ref.pk, message.ref.sk)
    if item is None:
        return await quarantine(rt, delivery, "runtime.message.orphan", log)
    chunk = Chunk.read(message.ref, item)
    if chunk.gen > message.gen or chunk.status.terminal:
        return "dead-letter queue: chunk had ended"
    await rt.work.send([Message.about(chunk.ref, chunk.gen)])
    return "dead-letter queue: sent again"


async def quarantine(
    rt: Runtime, delivery: Delivery, code: str, log: structlog.stdlib.BoundLogger
) -> str:
    """Set a message aside that belongs to nothing we know."""
    letters = DeadLetters(rt.dead_letters, rt.settings, rt.clock)
    await letters.quarantine(delivery, code)
    telemetry.emit(
        log, "message.quarantined", message_id=delivery.message_id, error_code=code
    )
    return "dead-letter queue: quarantined"
