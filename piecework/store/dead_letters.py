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

from piecework.aws.queue import Delivery, sketch
from piecework.domain import keys
from piecework.domain.claim import Claim
from piecework.domain.model import JobRef, iso
from piecework.domain.outcome import DeadLettered
from piecework.domain.records import (
    read_document,
    read_optional_int,
    read_optional_text,
    read_text,
)
from piecework.errors import PermanentError
from piecework.errors.fingerprint import fingerprint
from piecework.settings import Settings
from piecework.store.reopen import Patched
from piecework.store.table import Action, Item, Table, Written

OPEN, REDRIVEN, DISCARDED = "OPEN", "REDRIVEN", "DISCARDED"
#: Errors that a letter tells of, the last ones: each has up to 10 KB, an item 400.
TRAIL = 32

#: Nobody has dealt with it since it was looked at.
STILL_OPEN = "#state = :open"


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
        dead: DeadLettered,
        trail: list[Item],
        *,
        pipeline: str,
        owner: str,
        runbook: str = "",
    ) -> dict[str, Any]:
        """Return the row that is written together with the death of a chunk."""
        now, item, failure = self.clock(), claim.chunk.item, dead.failure
        errors = [told(row) for row in trail[1 - TRAIL :]]
        last = failure.model_dump(mode="json", exclude_none=True)
        stage = failure.stage or read_optional_text(item, "stage")
        return {
            "kind": "dead-letter",
            "state": OPEN,
            "tenant": claim.ref.tenant,
            "job": claim.ref.job,
            "chunk": claim.ref.chunk,
            "label": read_optional_text(item, "label"),
            "gen": claim.gen,
            "replay_of": read_optional_int(item, "replay_of"),
            "origin_gen": read_optional_int(item, "origin_gen"),
            "patched_in_gen": read_optional_int(item, "patched_in_gen"),
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
            "receive_count": read_optional_int(item, "receive_count"),
            "worker": claim.worker,
            "payload": read_optional_text(item, "payload"),
            "payload_sha256": read_optional_text(item, "payload_sha256"),
            "compensation": dead.compensation,
            "uncompensated_stages": list(dead.uncompensated_stages) or None,
            "error_history": json.dumps([*errors, last | {"worker": claim.worker}]),
            "created_at": read_optional_text(item, "created_at"),
            "dead_lettered_at": iso(now),
            "expires_at": expires_at(now, self.settings.dead_letter_retention_days),
        }

    async def quarantine(self, delivery: Delivery, code: str) -> None:
        """Keep a message that belongs to no chunk: its hash, and what it looks like."""
        now = self.clock()
        item = {
            "kind": "quarantine",
            "error_code": code,
            "body_sha256": keys.sha256(delivery.body.encode(errors="surrogatepass")),
            "body": sketch(delivery.body),
            "received": delivery.received,
            "at": iso(now),
            "expires_at": expires_at(now, self.settings.dead_letter_retention_days),
        }
        sk = delivery.message_id
        await self.table.put(
            self.table.action("Put", keys.QUARANTINE_PK, sk, item=item)
        )

    async def of_job(self, ref: JobRef) -> AsyncIterator[Item]:
        """Yield the dead letters of a job, those redriven since included."""
        async for item in self.table.query(ref.pk, any_version=True):
            if (letter := read_letter(item)) is not None:
                yield letter

    async def all(self, tenant: str) -> AsyncIterator[Item]:
        """Yield the dead letters of every job of a tenant."""
        async for item in self.table.scan():
            letter = read_letter(item)
            if letter is not None and letter["tenant"] == tenant:
                yield letter

    def redriving(
        self, letter: Item, next_gen: int, by: Closing, patched: Patched | None = None
    ) -> list[Action]:
        """Return OPEN -> REDRIVEN; it goes with what takes the chunk up again."""
        update = (
            "SET #state = :redriven, redriven_at = :now,"
            " redriven_by = :actor, redrive_reason = :reason, redriven_gen = :next"
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
            "SET #state = :discarded, discarded_at = :now,"
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


def read_letter(item: Item) -> Item | None:
    """Return a dead letter; None: the row is something else.

    Whose it is its key says, which nobody can edit: not another tenant's by a word.

    Raises:
        PermanentError: `runtime.record.unreadable`.
    """
    name = keys.dead_letter_of(item["pk"], item["sk"])
    if name is None:
        return None
    tenant, job, chunk, gen = name
    for field in ("error_code", "dead_lettered_at", "state", "error_history"):
        read_text(
            item, field, f"The dead letter {gen} of {job}/{keys.chunk_name(chunk)}"
        )
    return {**item, "tenant": tenant, "job": job, "chunk": chunk, "gen": gen}


def told(row: Item) -> dict[str, Any]:
    """Return the error that ended a claim, with whose it was.

    One that somebody spoiled is told as such: it must not keep its chunk from ending.
    """
    try:
        error = read_document(read_text(row, "error", "An error"), "An error")
    except PermanentError as unreadable:
        error = {"code": unreadable.code}
    return error | {"worker": read_optional_text(row, "worker")}


# The record of raised alarms: one for all reconcilers, until its quiet time ends.

#: The alarm was never raised, or its quiet time is over.
NOT_RAISED = "attribute_not_exists(pk) OR quiet_until <= :now"


async def raise_alarm(
    table: Table, tenant: str, about: str, *, now: float, quiet_s: float
) -> bool:
    """Record an alarm for `quiet_s` seconds; return whether this process raised it."""
    token = f"{table.rng.getrandbits(128):032x}"
    action = table.action(
        "Update",
        keys.alarms_pk(tenant),
        about,
        condition=NOT_RAISED,
        update="SET kind = :kind, raised_at = :now, quiet_until = :until,"
        " alarm_token = :token",
        values={
            "kind": "alarm",
            "now": iso(now),
            "until": iso(now + quiet_s),
            "token": token,
        },
    )
    reply = await table.update(action, returning="NONE")
    # Refused by our own token: the answer to the first of two sends was lost.
    return isinstance(reply, Written) or (reply.item or {}).get("alarm_token") == token


# The TTL attribute of items. DynamoDB deletes days late, so no lease relies on it.

DAY_S = 86_400


def expires_at(now: float, days: float) -> int:
    """Return the TTL in whole seconds of Unix time, `days` after `now`."""
    return int(now + days * DAY_S)


# The index of open dead letters by time, from which the alarms are evaluated.
#
# A mark is written with its dead letter and deleted with the write that closes it. So
# the reconciler finds the open dead letters without a scan.


def open_mark(table: Table, letter: dict[str, Any], kind: str) -> Action:
    """Return the `Put` or `Delete` of the mark of a dead letter."""
    names = ("tenant", "job", "chunk", "gen", "dead_lettered_at", "expires_at")
    facts = {name: letter[name] for name in names if name in letter}
    tenant, job = letter["tenant"], letter["job"]
    return table.action(
        kind,
        keys.open_letters_pk(tenant),
        keys.open_letter_sk(
            letter["dead_lettered_at"], job, letter["chunk"], letter["gen"]
        ),
        item={"kind": "open", **facts} if kind == "Put" else None,
    )


async def newest(table: Table, tenant: str, count: int) -> list[Item]:
    """Return the marks of the last written dead letters, the newest first."""
    return await table.first(keys.open_letters_pk(tenant), count, backwards=True)


async def oldest(table: Table, tenant: str) -> Item | None:
    """Return the mark of the dead letter that has been open for longest."""
    found = await table.first(keys.open_letters_pk(tenant), 1)
    return found[0] if found else None
