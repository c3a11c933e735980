"""Empty the dead-letter queue: a message there says nothing that the record does not.

SQS moves a message after ten receives, whatever they were: losers' looks, workers
that died. The record knows which. A chunk that still has work to do is sent again,
with a fresh count; whoever claims it undoes and buries it if its attempts are spent.
The message goes once that is done.

One of a newer version is treated alike if its record can be read; if that is newer,
too, it goes back to the workers as it came, until there is one that knows it.
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

#: Seconds that a message is hidden while it is looked at.
HIDE_S = 30.0
#: Batches in one look: some seconds, for which the jobs have to wait.
MOST_BATCHES = 100


async def drain(rt: Runtime, log: structlog.stdlib.BoundLogger) -> Counter[str]:
    """Take what lies in the dead-letter queue, and put each thing where it belongs.

    Of very much a part, the rest at the next looks: a dead worker's chunks wait for us.
    """
    acts: Counter[str] = Counter()
    queue, left = rt.dead_letter_queue, MOST_BATCHES
    while left and (deliveries := await queue.receive(BATCH, wait_s=0, hide_s=HIDE_S)):
        left -= 1
        placed = []
        for delivery in deliveries:
            try:
                acts[await place(rt, delivery, log)] += 1
            except Exception:  # noqa: BLE001 -- logged with its traceback
                # It shows again; the others need not wait for it.
                telemetry.emit(
                    log, "reconcile.message_failed", message_id=delivery.message_id
                )
                acts["failed"] += 1
            else:
                placed.append(delivery.receipt)
        await queue.delete(placed)
    return acts


async def place(
    rt: Runtime, delivery: Delivery, log: structlog.stdlib.BoundLogger
) -> str:
    """Do with one message what its chunk's record asks for."""
    ref = delivery.ref
    if ref is None:
        kind = "schema_too_new" if delivery.newer else "malformed"
        return await quarantine(rt, delivery, f"runtime.message.{kind}", log)
    try:
        return await as_its_record_says(rt, delivery, ref, log)
    except SchemaTooNewError:
        return await send_back(rt, delivery, log)
    except PermanentError as error:
        return await quarantine(rt, delivery, error.code, log)


async def as_its_record_says(
    rt: Runtime, delivery: Delivery, ref: ChunkRef, log: structlog.stdlib.BoundLogger
) -> str:
    """Do with a message what the record of its chunk asks for.

    Raises:
        SchemaTooNewError: The record is of a later version.
    """
    chunk = await read_chunk(rt.table, ref)
    if chunk is not None:
        return await dispatch_again(rt, delivery.message, chunk)
    job = await rt.jobs.read(ref.of)
    if ref.is_join and job is not None and job.has_notify_hook:
        # What is to be told needs no message: the reconciler sends another.
        return "dead-letter queue: notice"
    return await quarantine(rt, delivery, "runtime.message.orphan", log)


async def send_back(
    rt: Runtime, delivery: Delivery, log: structlog.stdlib.BoundLogger
) -> str:
    """Send a message that is for newer workers to them, with a fresh count."""
    if not await rt.work.send_back(delivery.body):
        message = "SQS did not take the message"
        raise StoreError(message)
    telemetry.emit(
        log,
        "message.deferred_newer_schema",
        about="dead-letter queue",
        received=delivery.received,
    )
    return "dead-letter queue: left to newer workers"


async def dispatch_again(rt: Runtime, message: Message | None, chunk: Chunk) -> str:
    """Send the message of a chunk that still has work to do."""
    earlier = message is not None and chunk.gen > message.gen
    if earlier or chunk.status.terminal:
        return "dead-letter queue: chunk had ended"
    await rt.work.send([Message.about(chunk.ref, chunk.gen)])
    return "dead-letter queue: sent again"


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


# Give an alarm when dead letters pile up, or when nobody looks after an old one.
#
# Both are read from the list of open letters: two queries of a few rows a look, a few
# looks a window, whatever the number of letters. An alarm is given once by all the
# reconcilers together, and again only after its window, if it is still so then.

#: Reads in each window, or age.
LOOKS = 5
#: Open letters that are counted: a page of the list, read anyway.
COUNTED = 100


@dataclass(slots=True)
class DeadLetterAlarms:
    """The alarms of one tenant, as one reconciler sees to them.

    Attributes:
        open_count: How many there are, up to `COUNTED`; None: nobody has looked.
        oldest_at: When the oldest of them was written; empty: there is none.
    """

    rt: Runtime
    log: structlog.stdlib.BoundLogger
    open_count: int | None = None
    oldest_at: str = ""
    _next: float = 0.0

    async def look(self, now: float) -> Counter[str]:
        """Evaluate the alarms if they are due on the loop's clock."""
        settings = self.rt.settings
        if now < self._next or not settings.dead_letter_alarm:
            return Counter()
        window, age = settings.dead_letter_alarm_window_s, settings.dead_letter_age_s
        self._next = now + min(window, age) / LOOKS
        given = await self._too_many(window), await self._too_old(age)
        return Counter({"alarm given": sum(given)})

    def oldest_s(self, now: float) -> float | None:
        """Return the age of the oldest open letter; None: nobody has looked."""
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
