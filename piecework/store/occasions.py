"""The occasions of a tenant: states that last, and which webhooks were told of each.

A row beside the outbox has the beginning of the state. So a reconciler that starts
later goes on with it. The deliveries are written in the transaction that notes them.
Whatever dies, a webhook is told once. Without a webhook for such events no row exists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from piecework.domain import keys
from piecework.domain.occasion import Occasion, Subject
from piecework.domain.schema import SCHEMA
from piecework.domain.webhook import Webhook, WebhookEvent
from piecework.store.outbox import deliveries_to
from piecework.store.table import ItemWrite, Table, Written

#: The state of the subject was not noted before.
NEW = "attribute_not_exists(pk)"
#: It is the same occasion, and no other reconciler has told it since it was read.
UNCHANGED = "since = :since AND tells = :tells"
#: No webhook was set since the mark was read.
SAME_MARK = "#token = :token"


def watch_mark(table: Table, tenant: str) -> ItemWrite:
    """Return the write of the mark of a tenant with occasions to watch for.

    Each write has its own token: the mark is removed only if no webhook came since.
    """
    item = {"tenant": tenant, "token": f"{table.rng.getrandbits(64):016x}"}
    return table.item_write("Put", keys.ACTIVE_PK, keys.watch_sk(tenant), item=item)


@dataclass(frozen=True, slots=True)
class Occasions:
    """The occasions of one tenant."""

    table: Table
    tenant: str
    clock: Callable[[], float]

    @property
    def pk(self) -> str:
        """The partition of its occasions."""
        return keys.outbox_pk(self.tenant)

    async def all(self) -> dict[Subject, Occasion]:
        """Return the occasions that last, by their subject."""
        rows = self.table.query(self.pk, keys.OCCASION_PREFIX)
        found = [Occasion(item) async for item in rows]
        return {occasion.subject: occasion for occasion in found}

    async def begin(self, subject: Subject, since: str, state: str) -> bool:
        """Note that a state has begun; False: it was noted before."""
        item = {
            "v": SCHEMA,
            "kind": subject.kind,
            "subject": subject.name,
            "pipeline": subject.pipeline,
            "since": since,
            "state": state,
            "told": [],
            "tells": 0,
        }
        sk = keys.occasion_sk(*subject)
        write = self.table.item_write("Put", self.pk, sk, item=item, condition=NEW)
        return isinstance(await self.table.put(write), Written)

    async def tell(
        self, occasion: Occasion, hooks: Sequence[Webhook], event: WebhookEvent
    ) -> bool:
        """Tell webhooks of an occasion; False: another reconciler told, or ended it."""
        told = [*occasion.told, *(hook.name for hook in hooks)]
        noted = self._row(
            occasion,
            "Update",
            update="SET told = :told, tells = :next",
            values={"told": told, "next": occasion.tells + 1},
        )
        return await self._write(noted, hooks, event)

    async def end(
        self, occasion: Occasion, hooks: Sequence[Webhook], event: WebhookEvent
    ) -> bool:
        """Forget an occasion that is over, and tell the webhooks that were told of it.

        Return False if another reconciler told or ended it.
        """
        told = [hook for hook in hooks if hook.name in occasion.told]
        return await self._write(self._row(occasion, "Delete"), told, event)

    async def unwatch(self) -> bool:
        """Remove the mark of a tenant without webhooks for such events."""
        key = keys.ACTIVE_PK, keys.watch_sk(self.tenant)
        mark = await self.table.get(*key)
        if mark is None:
            return True
        write = self.table.item_write(
            "Delete", *key, condition=SAME_MARK, values={"token": mark.get("token", "")}
        )
        return isinstance(await self.table.delete(write), Written)

    def _row(
        self,
        occasion: Occasion,
        kind: str,
        update: str = "",
        values: Mapping[str, object] = MappingProxyType({}),
    ) -> ItemWrite:
        same = {"since": occasion.since, "tells": occasion.tells}
        return self.table.item_write(
            kind,
            self.pk,
            keys.occasion_sk(*occasion.subject),
            condition=UNCHANGED,
            update=update,
            values={**same, **values},
        )

    async def _write(
        self, change: ItemWrite, hooks: Sequence[Webhook], event: WebhookEvent
    ) -> bool:
        deliveries = deliveries_to(self.table, hooks, event, self.clock())
        reply = await self.table.transact([change, *deliveries])
        return isinstance(reply, Written)
