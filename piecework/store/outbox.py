"""The outbox of a tenant: a delivery for each event and webhook, and when it is due.

A delivery is written in the transaction of its event, so no crash can lose it. Beside
it is a mark under its time, so that due deliveries are found without a scan. One mark
among the active jobs says that an outbox has deliveries: reconcilers read those marks
anyway. The next rungs of dead letters have marks here, too: see `store.ladders`.

    PENDING    to be delivered at `due_at`, or being delivered until then
    DELIVERED  the receiver accepted it
    FAILED     each of nine attempts failed; an operator may send it again
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from piecework.domain import keys
from piecework.domain.moments import iso
from piecework.domain.refs import ChunkRef
from piecework.domain.webhook import (
    Webhook,
    WebhookDelivery,
    WebhookEvent,
    body_of,
    encode,
)
from piecework.store.dead_letters import expires_at
from piecework.store.table import ItemWrite, Table, Written

PENDING, DELIVERED, FAILED = "PENDING", "DELIVERED", "FAILED"
#: Days for which a delivery is kept after its end, for `piecework webhooks show`.
DELIVERED_DAYS, FAILED_DAYS = 3.0, 30.0
#: Marks that are read at once.
PAGE = 25

IS_PENDING = "#state = :pending"
#: A claim is identified by its number: each claim has the next one.
CLAIMED = f"{IS_PENDING} AND claims = :claims"
#: It is as the process has read it, so only one process claims it.
DUE = f"{CLAIMED} AND due_at = :due"
IS_FAILED = "#state = :failed"
#: The webhook was not removed.
EXISTS = "attribute_exists(pk)"
#: No further event has failed since the webhook was read.
SAME_FAILURE = "failed_at = :seen"
#: No delivery was written since the mark was read.
SAME_MARK = "#token = :token"


async def webhooks_of(table: Table, tenant: str) -> list[Webhook]:
    """Return the webhooks of a tenant, by name."""
    return [Webhook(item) async for item in table.query(keys.webhooks_pk(tenant))]


async def read_webhook(table: Table, tenant: str, name: str) -> Webhook | None:
    """Return one webhook of a tenant."""
    item = await table.get(keys.webhooks_pk(tenant), name)
    return None if item is None else Webhook(item)


async def tell(table: Table, event: WebhookEvent, now: float) -> list[ItemWrite]:
    """Return the writes that tell the webhooks of an event, for its transaction.

    Without a webhook for the event the list is empty, at the price of one read.
    """
    hooks = await webhooks_of(table, event.tenant)
    return delivery_puts(table, hooks, event, now)


def delivery_puts(
    table: Table, hooks: Iterable[Webhook], event: WebhookEvent, now: float
) -> list[ItemWrite]:
    """Return the writes of the deliveries to those of the webhooks that accept it."""
    accepting = [hook for hook in hooks if hook.accepts(event)]
    return deliveries_to(table, accepting, event, now)


def deliveries_to(
    table: Table, hooks: Sequence[Webhook], event: WebhookEvent, now: float
) -> list[ItemWrite]:
    """Return the writes of the deliveries of an event to webhooks."""
    pk, at, writes = keys.outbox_pk(event.tenant), iso(now), []
    for hook in hooks:
        item = {
            "webhook": hook.name,
            "event": event.id,
            "kind": event.kind,
            "at": event.at,
            "body": body_of(event, hook.format, environment_of(table)),
            "state": PENDING,
            "due_at": at,
            "claims": 0,
            "attempts": 0,
        }
        if event.job:
            item["job"] = event.job
        if event.asks:
            item["asks"] = encode(event.asks)
        sk = keys.delivery_sk(hook.name, event.id)
        writes += [
            table.item_write("Put", pk, sk, item=item),
            due_mark(table, "Put", pk, hook.name, event.id, at),
        ]
    return [*writes, outbox_mark(table, event.tenant)] if writes else []


def environment_of(table: Table) -> str:
    """Return the name of the deployment whose table this is."""
    return table.name.removesuffix("-checkpoints")


def due_mark(
    table: Table, kind: str, pk: str, webhook: str, event: str, at: str
) -> ItemWrite:
    """Return the `Put` or `Delete` of the mark of a delivery under its time."""
    facts = {"webhook": webhook, "event": event, "due_at": at}
    item = facts if kind == "Put" else None
    return table.item_write(kind, pk, keys.due_sk(at, webhook, event), item=item)


def outbox_mark(table: Table, tenant: str) -> ItemWrite:
    """Return the write of the mark of an outbox with deliveries.

    Each write has its own token: the mark is removed only if no delivery came since.
    """
    item = {"tenant": tenant, "token": f"{table.rng.getrandbits(64):016x}"}
    return table.item_write("Put", keys.ACTIVE_PK, keys.outbox_sk(tenant), item=item)


@dataclass(frozen=True, slots=True)
class DueMark:
    """A delivery that waits, as its mark names it."""

    webhook: str
    event: str
    due_at: str


@dataclass(frozen=True, slots=True)
class RungMark:
    """A dead letter whose next rung is due; `store.ladders` has its states."""

    ref: ChunkRef
    gen: int
    due_at: str


def rung_mark(table: Table, kind: str, ref: ChunkRef, gen: int, at: str) -> ItemWrite:
    """Return the `Put` or `Delete` of the mark of a rung under its time."""
    facts = {"job": ref.job, "chunk": ref.chunk, "gen": gen, "due_at": at}
    item = facts if kind == "Put" else None
    sk = keys.rung_due_sk(at, ref.job, ref.chunk, gen)
    return table.item_write(kind, keys.outbox_pk(ref.tenant), sk, item=item)


@dataclass(slots=True)
class Outbox:
    """The outbox of one tenant."""

    table: Table
    tenant: str
    clock: Callable[[], float]

    @property
    def pk(self) -> str:
        """The partition of its deliveries."""
        return keys.outbox_pk(self.tenant)

    async def first_due(
        self, but: Collection[DueMark | RungMark] = ()
    ) -> list[DueMark | RungMark]:
        """Return the marks of what is due first, at most `PAGE`; none of `but`."""
        most = PAGE + len(but)
        found = await self.table.first(self.pk, most, prefix=keys.DUE_PREFIX)
        return [mark for item in found if (mark := self._mark(item)) not in but]

    def _mark(self, item: Mapping[str, Any]) -> DueMark | RungMark:
        if "webhook" in item:
            return DueMark(item["webhook"], item["event"], item["due_at"])
        ref = ChunkRef(self.tenant, item["job"], item["chunk"])
        return RungMark(ref, item["gen"], item["due_at"])

    async def deliveries(self, webhook: str = "") -> list[WebhookDelivery]:
        """Return the deliveries of a webhook, or of all, the newest first."""
        found = self.table.query(self.pk, keys.delivery_sk(webhook, ""))
        rows = [WebhookDelivery(item) async for item in found]
        return sorted(rows, key=lambda row: str(row.item["at"]), reverse=True)

    async def read(self, webhook: str, event: str) -> WebhookDelivery | None:
        """Return one delivery."""
        item = await self.table.get(self.pk, keys.delivery_sk(webhook, event))
        return None if item is None else WebhookDelivery(item)

    async def take(self, mark: DueMark, seconds: float) -> WebhookDelivery | None:
        """Claim a due delivery for `seconds`; None: it is claimed, or has ended.

        A process that dies during the delivery is followed after that time.
        """
        delivery = await self.read(mark.webhook, mark.event)
        if delivery is None or (delivery.state, delivery.due_at) != (
            PENDING,
            mark.due_at,
        ):
            # Another process has delivered it beside the claim of this mark.
            await self.table.delete(self._due("Delete", mark, mark.due_at))
            return None
        until = iso(self.clock() + seconds)
        facts = {"due_at": until, "claims": delivery.claims + 1}
        update = "due_at = :until, claims = :next"
        values = {"until": until, "next": delivery.claims + 1, "due": delivery.due_at}
        if not await self._move(delivery, DUE, update, values, due_at=until):
            return None
        return WebhookDelivery({**delivery.item, **facts})

    async def mark_delivered(self, delivery: WebhookDelivery) -> bool:
        """Move PENDING -> DELIVERED; not fenced, because the receiver has it."""
        now = self.clock()
        values = {
            "delivered": DELIVERED,
            "now": iso(now),
            "expires": expires_at(now, DELIVERED_DAYS),
        }
        update = "#state = :delivered, delivered_at = :now, expires_at = :expires"
        return await self._move(delivery, IS_PENDING, update, values)

    async def schedule_retry(
        self, delivery: WebhookDelivery, seconds: float, error: str
    ) -> bool:
        """Schedule the next attempt after `seconds`."""
        due = iso(self.clock() + seconds)
        update = "due_at = :due, attempts = :attempts, last_error = :error"
        values = {"due": due, "attempts": delivery.attempts + 1, "error": error}
        return await self._move(delivery, CLAIMED, update, values, due_at=due)

    async def fail(self, delivery: WebhookDelivery, error: str, *, noted: bool) -> bool:
        """Move PENDING -> FAILED after the last attempt.

        `noted`: note the failure on the webhook, too, where views find it in one read.
        """
        now = self.clock()
        values = {
            "failed": FAILED,
            "attempts": delivery.attempts + 1,
            "error": error,
            "now": iso(now),
            "expires": expires_at(now, FAILED_DAYS),
        }
        update = (
            "#state = :failed, attempts = :attempts, last_error = :error,"
            " failed_at = :now, expires_at = :expires"
        )
        note = self._webhook(
            delivery.webhook,
            EXISTS,
            "SET failed_at = :now, last_error = :error",
            {"now": iso(now), "error": error},
        )
        also = [note] if noted else []
        return await self._move(delivery, CLAIMED, update, values, *also)

    async def forget_failure(self, hook: Webhook) -> bool:
        """Remove the note of a failure: its failed events are sent again."""
        update, values = "REMOVE failed_at, last_error", {"seen": hook.failed_at}
        write = self._webhook(hook.name, SAME_FAILURE, update, values)
        return isinstance(await self.table.update(write), Written)

    async def retry_failed(self, delivery: WebhookDelivery) -> bool:
        """Move FAILED -> PENDING: an operator has repaired the receiver."""
        due = iso(self.clock())
        write = self.table.item_write(
            "Update",
            *delivery.key,
            condition=IS_FAILED,
            update="SET #state = :pending, due_at = :due, attempts = :none"
            " REMOVE failed_at, expires_at",
            values={"pending": PENDING, "failed": FAILED, "due": due, "none": 0},
        )
        moved = self._due("Put", delivery, due)
        mark = outbox_mark(self.table, self.tenant)
        return isinstance(await self.table.transact([write, moved, mark]), Written)

    async def close(self) -> bool:
        """Remove the mark of an outbox in which nothing waits; False: it has some."""
        key = keys.ACTIVE_PK, keys.outbox_sk(self.tenant)
        mark = await self.table.get(*key)
        if mark is None:
            return True
        if await self.first_due():
            return False
        write = self.table.item_write(
            "Delete", *key, condition=SAME_MARK, values={"token": mark.get("token", "")}
        )
        return isinstance(await self.table.delete(write), Written)

    def _webhook(
        self, name: str, condition: str, update: str, values: dict[str, Any]
    ) -> ItemWrite:
        """Return a change of the row of a webhook."""
        return self.table.item_write(
            "Update",
            keys.webhooks_pk(self.tenant),
            name,
            condition=condition,
            update=update,
            values=values,
        )

    def _due(self, kind: str, about: DueMark | WebhookDelivery, at: str) -> ItemWrite:
        return due_mark(self.table, kind, self.pk, about.webhook, about.event, at)

    async def _move(
        self,
        delivery: WebhookDelivery,
        condition: str,
        assignments: str,
        values: dict[str, Any],
        *also: ItemWrite,
        due_at: str = "",
    ) -> bool:
        """Change a delivery, and replace the mark of its time by that of `due_at`."""
        values = {"pending": PENDING, **values}
        if ":claims" in condition:
            values["claims"] = delivery.claims
        write = self.table.item_write(
            "Update",
            *delivery.key,
            condition=condition,
            update=f"SET {assignments}",
            values=values,
        )
        moved = [
            self._due(kind, delivery, at)
            for kind, at in (("Delete", delivery.due_at), ("Put", due_at))
            if at and due_at != delivery.due_at
        ]
        return isinstance(await self.table.transact([write, *moved, *also]), Written)
