"""Empty the dead-letter queue, and give alarms about open dead letters.

SQS moves a message after ten receives, also after refused claims. The record of the
chunk decides what happens next. If the chunk has not ended, the reconciler sends a new
message with a new receive count. A worker then recovers a chunk without attempts left.
Afterwards the reconciler deletes the message.

A message of a newer version is treated alike if the record of its chunk is readable.
The record may be of a newer version, too. Then the message goes back to its work queue
unchanged, until a newer worker receives it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from piecework import telemetry
from piecework.aws.queue import BATCH, Delivery, Message
from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.dead_letter import OpenLetterRow
from piecework.domain.moments import iso, moment
from piecework.domain.refs import ChunkRef
from piecework.domain.webhook import Webhook, WebhookEvent, event_id
from piecework.errors import PermanentError, SchemaTooNewError, StoreError
from piecework.runtime import Runtime
from piecework.store.completion import read_chunk
from piecework.store.dead_letters import DeadLetters, newest, oldest, raise_alarm
from piecework.store.outbox import delivery_puts, webhooks_of

if TYPE_CHECKING:
    import structlog

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
        return await send_back(rt, delivery, ref, log)
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
    rt: Runtime, delivery: Delivery, ref: ChunkRef, log: structlog.stdlib.BoundLogger
) -> str:
    """Send a message back to the queue of its job for newer workers."""
    queue = await rt.work.named(await rt.jobs.queue_of(ref.of))
    if not await queue.send_back(delivery.body):
        message = "SQS refused a message that goes back to its work queue."
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
    if earlier or chunk.status.ended:
        return "dead-letter queue: chunk had ended"
    queue = await rt.jobs.queue_of(chunk.ref.of)
    await rt.work.send([Message.about(chunk.ref, chunk.gen)], to=queue)
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
# reconcilers together give an alarm once in its window. The first alarm is also for
# each other tenant with a webhook that reconcilers look for.

#: How often the alarms are evaluated in the shorter one of window and age.
EVALUATIONS = 5
#: Open dead letters that are counted at most: one page of the index.
COUNTED = 100
#: Jobs that an event names at most.
JOBS = 10


@dataclass(slots=True)
class DeadLetterAlarms:
    """The alarms, as one reconciler evaluates them.

    Attributes:
        open_count: The open dead letters of its own tenant, up to `COUNTED`; None: not
            counted yet.
        oldest_at: The time of the oldest open dead letter; empty without one.
    """

    rt: Runtime
    log: structlog.stdlib.BoundLogger
    open_count: int | None = None
    oldest_at: str = ""
    _next: float = 0.0
    #: The last arrivals of a tenant whose alarm was given: it is not asked for again.
    _given: dict[str, str] = field(default_factory=dict)

    async def evaluate(self, now: float, tenants: Iterable[str] = ()) -> Counter[str]:
        """Evaluate the alarms if they are due on the loop's clock."""
        settings = self.rt.settings
        if now < self._next or not settings.dead_letter_alarm:
            return Counter()
        window, age = settings.dead_letter_alarm_window_s, settings.dead_letter_age_s
        self._next = now + min(window, age) / EVALUATIONS
        own = settings.tenant
        given = await self._too_many(own, window) + await self._too_old(age)
        for tenant in sorted({*tenants} - {own}):
            given += await self._too_many(tenant, window)
        return Counter({"alarm given": given})

    def oldest_s(self, now: float) -> float | None:
        """Return the age of the oldest open dead letter; None: not read yet."""
        if self.open_count is None:
            return None
        return max(0.0, now - moment(self.oldest_at)) if self.oldest_at else 0.0

    async def _too_many(self, tenant: str, window: float) -> bool:
        """Give the alarm of arrivals, and tell the webhooks, also of one pipeline."""
        rt, least = self.rt, self.rt.settings.dead_letter_alarm
        found = await newest(rt.dead_letters, tenant, max(COUNTED, least))
        if tenant == rt.settings.tenant:
            self.open_count = min(COUNTED, len(found))
        arrived = Arrivals.find(found, least, window, rt.clock())
        given = self._given.get(tenant)
        if arrived is None or arrived.newest.dead_lettered_at == given:
            return False
        hooks = await webhooks_of(rt.table, tenant)
        is_given = await self._give_arrivals(tenant, arrived, hooks)
        for name in sorted({hook.pipeline for hook in hooks} - {""}):
            letters = [letter for letter in found if letter.pipeline == name]
            some = Arrivals.find(letters, least, window, rt.clock())
            if some is not None:
                its = [hook for hook in hooks if hook.pipeline == name]
                await self._give_arrivals(tenant, replace(some, pipeline=name), its)
        return is_given

    async def _give_arrivals(
        self, tenant: str, arrived: Arrivals, hooks: Sequence[Webhook]
    ) -> bool:
        """Give the alarm of arrivals with its deliveries, in one transaction."""
        rt, now, pipeline = self.rt, self.rt.clock(), arrived.pipeline
        latest = arrived.newest.dead_lettered_at
        given = await raise_alarm(
            rt.dead_letters,
            tenant,
            keys.arrivals_sk(pipeline),
            now=now,
            quiet_s=arrived.window_s,
            newest=latest,
            also=delivery_puts(rt.table, hooks, arrived.event(tenant, now), now),
        )
        if pipeline:
            return given
        if given:
            telemetry.emit(
                self.log,
                "dlq.alarm",
                tenant=tenant,
                about="arrivals",
                at_least=arrived.least,
                window_s=arrived.window_s,
            )
        elif now >= moment(latest) + 2 * arrived.window_s:
            # Given before, and no quiet time can hide it: do not ask again.
            self._given[tenant] = latest
        return given

    async def _too_old(self, age: float) -> bool:
        """Give the alarm of an old dead letter."""
        rt, now = self.rt, self.rt.clock()
        found = await oldest(rt.dead_letters, rt.settings.tenant)
        self.oldest_at = found.dead_lettered_at if found else ""
        if found is None or found.dead_lettered_at > iso(now - age):
            return False
        table, tenant = rt.dead_letters, rt.settings.tenant
        if not await raise_alarm(table, tenant, keys.AGE_SK, now=now, quiet_s=age):
            return False
        telemetry.emit(
            self.log,
            "dlq.alarm",
            tenant=tenant,
            about="age",
            age_s=age,
            dead_lettered_at=found.dead_lettered_at,
            job=found.job,
            chunk=found.chunk,
        )
        return True


# ── dead letters that arrived fast ────────────────────────────────────────────

#: Seconds for which arrivals count if no reconciler ran when they came.
LOOK_BACK_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Open dead letters that arrived within a window.

    Attributes:
        pipeline: The pipeline of all of them; empty: any pipeline.
        least: How many give an alarm.
    """

    letters: Sequence[OpenLetterRow]
    least: int
    window_s: float
    pipeline: str = ""

    @classmethod
    def find(
        cls, found: Sequence[OpenLetterRow], least: int, window_s: float, now: float
    ) -> Arrivals | None:
        """Return the last arrivals that give an alarm; `found` has the newest first."""
        times = [moment(letter.dead_lettered_at) for letter in found]
        for first, at in enumerate(times):
            if at < now - LOOK_BACK_S:
                return None
            within = sum(at - other <= window_s for other in times[first:])
            if within >= least:
                return cls(found[first : first + within], least, window_s)
        return None

    @property
    def newest(self) -> OpenLetterRow:
        """The dead letter that arrived last."""
        return self.letters[0]

    def event(self, tenant: str, now: float) -> WebhookEvent:
        """Return what webhooks are told."""
        last, count = self.newest, len(self.letters)
        of = f" of pipeline {self.pipeline}" if self.pipeline else ""
        where = (last.dead_lettered_at, last.job, last.chunk)
        jobs = sorted({letter.job for letter in self.letters})
        return WebhookEvent(
            kind="dead_letters.arrived",
            id=event_id(tenant, self.pipeline, *where),
            at=iso(now),
            tenant=tenant,
            pipeline=self.pipeline,
            text=f"{count} dead letters{of} arrived within {self.window_s:g} s.",
            command="piecework dlq stats",
            data={"count": count, "window_s": self.window_s, "jobs": jobs[:JOBS]},
        )
