"""The dead letters: one row for each time a chunk died, with its whole story.

Also where messages go that belong to no chunk. Kept longer than the jobs, under
permissions of their own.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from piecework import keys
from piecework.claim import Claim
from piecework.model import ChunkRef, JobRef, iso
from piecework.outcome import Dead
from piecework.queue import Delivery
from piecework.settings import Settings
from piecework.store.settle import DAY_S
from piecework.store.table import Item, Table, Written

QUARANTINE_PK = "QUARANTINE"


@dataclass(slots=True)
class DeadLetters:
    """The dead letters of a deployment."""

    table: Table
    settings: Settings
    clock: Callable[[], float]

    def row(
        self, claim: Claim, dead: Dead, trail: list[Item], *, pipeline: str, owner: str
    ) -> dict[str, Any]:
        """Return the row that is written together with the death of a chunk."""
        now, item, failure = self.clock(), claim.chunk.item, dead.failure
        errors = [json.loads(row["error"]) | {"worker": row["worker"]} for row in trail]
        last = failure.model_dump(mode="json", exclude_none=True)
        return {
            "kind": "dead-letter",
            "letter_state": "OPEN",
            "tenant": claim.ref.tenant,
            "job": claim.ref.job,
            "chunk": claim.ref.chunk,
            "label": item.get("label"),
            "gen": claim.gen,
            "pipeline": pipeline,
            "owner": owner or None,
            "stage": failure.stage or item.get("stage"),
            "error_code": failure.code,
            "error_class": failure.error_class,
            "error": failure.message,
            "attempts": claim.attempt,
            "claims": claim.fence,
            "deliveries": item.get("deliveries"),
            "worker": claim.worker,
            "payload": item.get("payload"),
            "payload_sha256": item.get("payload_sha256"),
            "compensation": dead.compensation,
            "stranded": list(dead.stranded) or None,
            "trail": json.dumps([*errors, last | {"worker": claim.worker}]),
            "created_at": item.get("created_at"),
            "died_at": iso(now),
            "expires_at": int(now) + self.settings.keep_dead_letters_days * DAY_S,
        }

    async def quarantine(self, delivery: Delivery, code: str) -> None:
        """Keep a message that belongs to no chunk, by its hash and its beginning."""
        now = self.clock()
        item = {
            "kind": "quarantine",
            "error_code": code,
            "body_sha256": keys.sha256(delivery.body.encode()),
            "body": delivery.body[:512],
            "received": delivery.received,
            "at": iso(now),
            "expires_at": int(now) + self.settings.keep_dead_letters_days * DAY_S,
        }
        sk = delivery.message_id
        await self.table.put(self.table.action("Put", QUARANTINE_PK, sk, item=item))

    async def of_job(self, ref: JobRef) -> AsyncIterator[Item]:
        """Yield the dead letters of a job, those redriven since included."""
        async for item in self.table.query(ref.pk):
            yield item

    async def all(self, tenant: str) -> AsyncIterator[Item]:
        """Yield the dead letters of every job of a tenant."""
        async for item in self.table.scan():
            if item.get("tenant") == tenant and item["kind"] == "dead-letter":
                yield item

    async def redriven(
        self, ref: ChunkRef, gen: int, *, next_gen: int, actor: str, reason: str
    ) -> bool:
        """Move OPEN -> REDRIVEN, with who and why."""
        action = self.table.action(
            "Update",
            ref.of.pk,
            keys.dead_letter_sk(ref.chunk, gen),
            condition="letter_state = :open",
            update="SET letter_state = :redriven, redriven_at = :now,"
            " redriven_by = :actor, redrive_reason = :reason, redriven_as = :next",
            values={
                "open": "OPEN",
                "redriven": "REDRIVEN",
                "now": iso(self.clock()),
                "actor": actor,
                "reason": reason,
                "next": next_gen,
            },
        )
        return isinstance(await self.table.update(action, returning="NONE"), Written)
