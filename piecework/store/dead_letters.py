"""The dead letters: one row for each time a chunk died, with its whole story.

Also where messages go that belong to no chunk. Kept longer than the jobs, under
permissions of their own.

OPEN -> REDRIVEN
OPEN -> DISCARDED
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from piecework import keys
from piecework.claim import Claim
from piecework.fingerprint import fingerprint
from piecework.model import JobRef, iso
from piecework.outcome import Dead
from piecework.queue import Delivery
from piecework.settings import Settings
from piecework.store.expiry import expires_at
from piecework.store.open_letters import open_mark
from piecework.store.reopen import Patched
from piecework.store.table import Action, Item, Table, Written

OPEN, REDRIVEN, DISCARDED = "OPEN", "REDRIVEN", "DISCARDED"
QUARANTINE_PK = "QUARANTINE"

#: Nobody has dealt with it since it was looked at.
STILL_OPEN = "letter_state = :open"


@dataclass(frozen=True, slots=True)
class Closing:
    """Who closes letters, and why."""

    actor: str
    reason: str


@dataclass(slots=True)
class DeadLetters:
    """The dead letters of a deployment."""

    table: Table
    settings: Settings
    clock: Callable[[], float]

    def row(
        self,
        claim: Claim,
        dead: Dead,
        trail: list[Item],
        *,
        pipeline: str,
        owner: str,
        runbook: str = "",
    ) -> dict[str, Any]:
        """Return the row that is written together with the death of a chunk."""
        now, item, failure = self.clock(), claim.chunk.item, dead.failure
        errors = [json.loads(row["error"]) | {"worker": row["worker"]} for row in trail]
        last = failure.model_dump(mode="json", exclude_none=True)
        stage = failure.stage or item.get("stage")
        return {
            "kind": "dead-letter",
            "letter_state": OPEN,
            "tenant": claim.ref.tenant,
            "job": claim.ref.job,
            "chunk": claim.ref.chunk,
            "label": item.get("label"),
            "gen": claim.gen,
            "replay_of": item.get("replay_of"),
            "origin_gen": item.get("origin_gen"),
            "patched_as": item.get("patched_as"),
            "pipeline": pipeline,
            "owner": owner or None,
            "runbook": runbook or None,
            "stage": stage,
            "error_code": failure.code,
            "error_class": failure.error_class,
            "error": failure.message,
            "fingerprint": fingerprint(failure.code, stage or "", failure.message),
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
            "expires_at": expires_at(now, self.settings.keep_dead_letters_days),
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
            "expires_at": expires_at(now, self.settings.keep_dead_letters_days),
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

    def redriving(
        self, letter: Item, next_gen: int, by: Closing, patched: Patched | None = None
    ) -> list[Action]:
        """Return OPEN -> REDRIVEN; it goes with what takes the chunk up again."""
        update = (
            "SET letter_state = :redriven, redriven_at = :now,"
            " redriven_by = :actor, redrive_reason = :reason, redriven_as = :next"
        )
        values = {"redriven": REDRIVEN, "next": next_gen}
        if patched is not None:
            update += (
                ", patch = :patch, patched_payload = :place,"
                " patched_payload_sha256 = :sha256"
            )
            values |= {
                "patch": patched.patch,
                "place": patched.payload,
                "sha256": patched.payload_sha256,
            }
        return self._closing(letter, update, values, by)

    async def discard(self, letter: Item, by: Closing) -> bool:
        """Move OPEN -> DISCARDED: its chunk stays dead, and somebody decided so."""
        update = (
            "SET letter_state = :discarded, discarded_at = :now,"
            " discarded_by = :actor, discard_reason = :reason"
        )
        actions = self._closing(letter, update, {"discarded": DISCARDED}, by)
        return isinstance(await self.table.transact(actions), Written)

    def _closing(
        self, letter: Item, update: str, values: dict[str, Any], by: Closing
    ) -> list[Action]:
        ref = JobRef(letter["tenant"], letter["job"])
        close = self.table.action(
            "Update",
            ref.pk,
            keys.dead_letter_sk(letter["chunk"], letter["gen"]),
            condition=STILL_OPEN,
            update=update,
            values={
                "open": OPEN,
                "now": iso(self.clock()),
                "actor": by.actor,
                "reason": by.reason,
                **values,
            },
        )
        return [close, open_mark(self.table, letter, "Delete")]
