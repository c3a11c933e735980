"""Empty the dead-letter queue, and give alarms about open dead letters.

SQS moves a message after ten receives, also after refused claims. The record of the
chunk decides what happens next. If the chunk has not ended, the reconciler sends a new
message with a new receive count; a worker then recovers a chunk without attempts left.
Afterwards the reconciler deletes the message.

A message of a newer version is treated alike if the record of its chunk is readable.
If the record is of a newer version, too, the message goes back to the work queue
unchanged, until a newer worker receives it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import structlog

from piecework import telemetry
from piecework.aws.queue import BATCH, Delivery, Message
from piecework.domain.model import Chunk, ChunkRef, iso, moment
from piecework.errors import PermanentError, SchemaTooNewError, StoreError
from piecework.runtime import Runtime
from piecework.store.completion import read_chunk
from piecework.store.dead_letters import DeadLetters, newest, oldest, raise_alarm

#: Seconds for which a message is hidden while the reconciler handles it.
HIDE_S = 30.0
#: Batches in one pass: some seconds, for which the jobs have to wait.
MAX_BATCHES = 100


async def drain(rt: Runtime, log: structlog.stdlib.BoundLogger) -> Counter[str]:
    """Handle the messages of the dead-letter queue; return the number of each action.

    One pass handles `MAX_BATCHES` batches, because dead workers' chunks wait meanwhile.
    """
    actions: Counter[str] = Counter()
    queue, left = rt.dead_letter_queue, MAX_BATCHES
    while left and (deliveries := await queue.receive(BATCH, wait_s=0, hide_s=HIDE_S)):
        left -= 1
        handled = []
        for delivery in deliveries:
            try:
                actions[await handle(rt, delivery, log)] += 1
            except Exception:  # noqa: BLE001 -- logged with its traceback
                # SQS delivers it again; the other messages do not wait for it.
                telemetry.emit(
                    log, "reconcile.message_failed", message_id=delivery.message_id
                )
                actions["failed"] += 1
            else:
                handled.append(delivery.receipt)
        await queue.delete(handled)
    return actions


async def handle(
    rt: Runtime, delivery: Delivery, log: structlog.stdlib.BoundLogger
) -> str:
    """Handle one message by the record of its chunk; return the action."""
    ref = delivery.ref
    if ref is None:
        kind = "schema_too_new" if delivery.newer else "malformed"
        return await quarantine(rt, delivery, f"runtime.message.{kind}", log)
    try:
        return await handle_by_record(rt, delivery, ref, log)
    except SchemaTooNewError:
        return await send_back(rt, delivery, log)
    except PermanentError as error:
        return await quarantine(rt, delivery, error.code, log)


async def handle_by_record(
    rt: Runtime, delivery: Delivery, ref: ChunkRef, log: structlog.stdlib.BoundLogger
) -> str:
    """Dispatch the chunk of a message again, or quarantine the message.

    Raises:
        SchemaTooNewError: A newer version wrote the record.
    """
    chunk = await read_chunk(rt.table, ref)
    if chunk is not None:
        return await dispatch_again(rt, delivery.message, chunk)
    job = await rt.jobs.read(ref.of)
    if job is not None and job.status.gone:
        return "dead-letter queue: job deleted"
    if ref.is_join and job is not None and job.has_notify_hook:
        # The reconciler sends the message of a pending notification by itself.
        return "dead-letter queue: notification"
    return await quarantine(rt, delivery, "runtime.message.orphan", log)


async def send_back(
    rt: Runtime, delivery: Delivery, log: structlog.stdlib.BoundLogger
) -> str:
    """Send a message back to the work queue for newer workers."""
    if not await rt.work.send_back(delivery.body):
        message = "SQS refused a message that goes back to the work queue."
        raise StoreError(message)
    telemetry.emit(
        log,
        "message.deferred_newer_schema",
        about="dead-letter queue",
        received=delivery.received,
    )
    return "dead-letter queue: left to newer workers"


async def dispatch_again(rt: Runtime, message: Message | None, chunk: Chunk) -> str:
    """Send the message of a chunk that has not ended."""
    earlier = message is not None and chunk.gen > message.gen
    if earlier or chunk.status.terminal:
        return "dead-letter queue: chunk had ended"
    await rt.work.send([Message.about(chunk.ref, chunk.gen)])
    return "dead-letter queue: redispatched"


async def quarantine(
    rt: Runtime, delivery: Delivery, code: str, log: structlog.stdlib.BoundLogger
) -> str:
    """Store a message that belongs to no chunk, and emit an event."""
    store = DeadLetters(rt.dead_letters, rt.settings, rt.clock)
    await store.quarantine(delivery, code)
    telemetry.emit(
        log, "message.quarantined", message_id=delivery.message_id, error_code=code
    )
    return "dead-letter queue: quarantined"


# ── alarms ──────────────────────────────────────────────────────────────────
#
# One alarm is for many new dead letters, one for an old open dead letter. Each costs
# one query of the index of open dead letters, independent of their number. All
# reconcilers together give an alarm once in its window.

#: How often the alarms are evaluated in the shorter one of window and age.
EVALUATIONS = 5
#: Open dead letters that are counted at most: one page of the index.
COUNTED = 100


@dataclass(slots=True)
class DeadLetterAlarms:
    """The alarms of a tenant, as one reconciler evaluates them.

    Attributes:
        open_count: The open dead letters, up to `COUNTED`; None: not counted yet.
        oldest_at: The time of the oldest open dead letter; empty without one.
    """

    rt: Runtime
    log: structlog.stdlib.BoundLogger
    open_count: int | None = None
    oldest_at: str = ""
    _next: float = 0.0

    async def evaluate(self, now: float) -> Counter[str]:
        """Evaluate the alarms if they are due on the loop's clock."""
        settings = self.rt.settings
        if now < self._next or not settings.dead_letter_alarm:
            return Counter()
        window, age = settings.dead_letter_alarm_window_s, settings.dead_letter_age_s
        self._next = now + min(window, age) / EVALUATIONS
        given = await self._too_many(window), await self._too_old(age)
        return Counter({"alarm given": sum(given)})

    def oldest_s(self, now: float) -> float | None:
        """Return the age of the oldest open dead letter; None: not read yet."""
        if self.open_count is None:
            return None
        return max(0.0, now - moment(self.oldest_at)) if self.oldest_at else 0.0

    async def _too_many(self, window: float) -> bool:
        rt, most = self.rt, self.rt.settings.dead_letter_alarm
        now = rt.clock()
        count = max(COUNTED, most + 1)
        found = await newest(rt.dead_letters, rt.settings.tenant, count)
        self.open_count = min(COUNTED, len(found))
        if len(found) <= most or found[most].dead_lettered_at < iso(now - window):
            return False
        return await self._give(
            "arrivals", now, window, more_than=most, window_s=window
        )

    async def _too_old(self, age: float) -> bool:
        rt, now = self.rt, self.rt.clock()
        found = await oldest(rt.dead_letters, rt.settings.tenant)
        self.oldest_at = found.dead_lettered_at if found else ""
        if found is None or found.dead_lettered_at > iso(now - age):
            return False
        return await self._give(
            "age",
            now,
            age,
            age_s=age,
            dead_lettered_at=found.dead_lettered_at,
            job=found.job,
            chunk=found.chunk,
        )

    async def _give(self, about: str, now: float, quiet_s: float, **facts: Any) -> bool:
        table, tenant = self.rt.dead_letters, self.rt.settings.tenant
        ours = await raise_alarm(table, tenant, about, now=now, quiet_s=quiet_s)
        if ours:
            telemetry.emit(self.log, "dlq.alarm", tenant=tenant, about=about, **facts)
        return ours
