"""The dead letters: one row for each death of a chunk, with its whole story.

The table also has the quarantined messages, which belong to no chunk. Its rows are kept
longer than jobs, and roles have separate permissions for it.

OPEN -> REDRIVEN
OPEN -> DISCARDED
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from piecework.domain import keys
from piecework.domain.claim import Claim
from piecework.domain.dead_letter import STATES, DeadLetterRow, OpenLetterRow
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.outcome import DeadLettered
from piecework.domain.records import (
    read_document,
    read_optional_int,
    read_optional_text,
    read_text,
)
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.retention import DAY_S
from piecework.domain.rows import ErrorRow, told_once
from piecework.errors import PermanentError
from piecework.errors.codes import Code, own_meaning
from piecework.errors.fingerprint import fingerprint
from piecework.settings import Settings
from piecework.store.reopen import Patched
from piecework.store.table import ItemWrite, Table, Written

if TYPE_CHECKING:
    from piecework.aws.queue import Delivery
    from piecework.errors import ErrorEnvelope

OPEN, REDRIVEN, DISCARDED = STATES
#: Dead letters of a large job that a view reads: up to three pages of a megabyte.
MOST_LETTERS = 1_500
#: The last errors that a dead letter has: each has up to 10 KB, an item up to 400.
MAX_ERRORS = 32

#: It was not closed since it was read.
STILL_OPEN = "#state = :open"


@dataclass(slots=True)
class LetterCounts:
    """The dead letters of a job, or of its first ones.

    Attributes:
        dead: The error codes of the chunks that are dead, by number: a discarded letter
            leaves its chunk dead.
        discarded: The chunks among these whose letter an operator discarded.
        died_at: When these chunks died, ISO 8601.
        open: The letters that no operator has closed, of chunks and of the join.
        damaged: The chunks of those of them that cannot be read.
        complete: Whether all letters were read.
    """

    dead: dict[int, str] = field(default_factory=dict)
    discarded: set[int] = field(default_factory=set)
    died_at: list[str] = field(default_factory=list)
    open: int = 0
    damaged: list[ChunkRef] = field(default_factory=list)
    complete: bool = True

    @property
    def codes(self) -> Counter[str]:
        """The dead chunks by error code."""
        return Counter(self.dead.values())


@dataclass(frozen=True, slots=True)
class Closing:
    """The operator who closes dead letters, and the reason."""

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
        errors: Sequence[ErrorRow],
        *,
        pipeline: str,
        owner: str,
        runbook: str = "",
        codes: Iterable[Code] = (),
        compensated: Mapping[str, ErrorEnvelope | None] | None = None,
    ) -> dict[str, Any]:
        """Return the item that is written when a chunk is dead-lettered."""
        now, item, failure = self.clock(), claim.chunk.item, dead.failure
        history = [stored_error(row) for row in told_once(errors)]
        last = failure.model_dump(mode="json", exclude_none=True)
        if all(error != last | {"worker": error["worker"]} for error in history):
            history.append(last | {"worker": claim.worker})
        stage = failure.stage or read_optional_text(item, "stage")
        return {
            "kind": "dead-letter",
            "state": OPEN,
            "tenant": claim.ref.tenant,
            "job": claim.ref.job,
            "chunk": claim.ref.chunk,
            "label": read_optional_text(item, "label"),
            "gen": claim.gen,
            "order_key": read_optional_text(item, "order_key"),
            "replay_of": read_optional_int(item, "replay_of"),
            "origin_gen": read_optional_int(item, "origin_gen"),
            "patched_in_gen": read_optional_int(item, "patched_in_gen"),
            "pipeline": pipeline,
            "owner": owner or self.settings.owner,
            "runbook": runbook or self.settings.runbook,
            "stage": stage,
            "error_code": failure.code,
            "error_class": failure.error_class,
            "error": failure.message,
            **own_meaning(failure.code, codes),
            "raised": failure.raised or None,
            "fingerprint": fingerprint(failure.code, stage or "", failure.message),
            "attempts": claim.attempt,
            "claims": claim.fence,
            "receive_count": read_optional_int(item, "receive_count"),
            "worker": claim.worker,
            "code_version": claim.code_version or None,
            "payload": read_optional_text(item, "payload"),
            "payload_sha256": read_optional_text(item, "payload_sha256"),
            "compensation": dead.compensation,
            "uncompensated_stages": list(dead.uncompensated_stages) or None,
            "stages_without_effect": list(dead.stages_without_effect) or None,
            "compensation_errors": compensation_errors(compensated or {}) or None,
            "error_history": json.dumps(history[-MAX_ERRORS:]),
            "created_at": read_optional_text(item, "created_at"),
            "dead_lettered_at": iso(now),
        }

    async def quarantine(self, delivery: Delivery, code: str) -> None:
        """Store the hash and the shape of a message that belongs to no chunk."""
        from piecework.aws.queue import describe_malformed  # loads pydantic

        now, days = self.clock(), self.settings.job_retention_days
        item = {
            "kind": "quarantine",
            "error_code": code,
            "body_sha256": keys.sha256(delivery.body.encode(errors="surrogatepass")),
            "body": describe_malformed(delivery.body),
            "received": delivery.received,
            "at": iso(now),
            "expires_at": expires_at(now, days) if days else None,
        }
        sk = delivery.message_id
        await self.table.put(
            self.table.item_write("Put", keys.QUARANTINE_PK, sk, item=item)
        )

    async def of_job(
        self, ref: JobRef, unreadable: list[DeadLetterRow] | None = None
    ) -> AsyncIterator[DeadLetterRow]:
        """Yield the dead letters of a job, closed ones included.

        Damaged ones are added to `unreadable`; None: one raises.
        """
        async for item in self.table.query(ref.pk, any_version=True):
            if (letter := DeadLetterRow.read(item, unreadable)) is not None:
                yield letter

    async def of_chunk(self, ref: ChunkRef) -> list[DeadLetterRow]:
        """Return the dead letters of a chunk, the oldest first."""
        prefix = keys.dead_letters_prefix(ref.chunk)
        found = self.table.query(ref.of.pk, prefix)
        letters = [DeadLetterRow.read(item) async for item in found]
        known = (letter for letter in letters if letter is not None)
        return sorted(known, key=lambda letter: letter.gen)

    async def all(
        self, tenant: str, unreadable: list[DeadLetterRow] | None = None
    ) -> AsyncIterator[DeadLetterRow]:
        """Yield the dead letters of every job of a tenant; `unreadable`: as above."""
        async for item in self.table.scan():
            name = keys.dead_letter_of(item["pk"], item["sk"])
            if name is None or name[0] != tenant:
                continue
            if (letter := DeadLetterRow.read(item, unreadable)) is not None:
                yield letter

    async def read(
        self, ref: ChunkRef, gen: int, unreadable: list[DeadLetterRow] | None = None
    ) -> DeadLetterRow | None:
        """Return the dead letter of a chunk in a generation; `unreadable`: as above."""
        sk = keys.dead_letter_sk(ref.chunk, gen)
        item = await self.table.get(ref.of.pk, sk)
        return None if item is None else DeadLetterRow.read(item, unreadable)

    async def read_many(
        self, places: Iterable[tuple[ChunkRef, int]], unreadable: list[DeadLetterRow]
    ) -> dict[tuple[ChunkRef, int], DeadLetterRow]:
        """Return open dead letters by chunk and generation; `unreadable`: as above.

        A hundred are one request. One that is closed, or that is gone, is left out.
        """
        keys_of = {
            (ref.of.pk, keys.dead_letter_sk(ref.chunk, gen)): (ref, gen)
            for ref, gen in places
        }
        items = await self.table.get_many(keys_of, any_version=True)
        read = (
            (keys_of[place], DeadLetterRow.read(item, unreadable))
            for place, item in items.items()
            if is_open(item)
        )
        return {place: letter for place, letter in read if letter is not None}

    async def open_marks(self, tenant: str) -> AsyncIterator[OpenLetterRow]:
        """Yield the marks of a tenant's open dead letters, the newest first."""
        pk = keys.open_letters_pk(tenant)
        async for item in self.table.query(pk, backwards=True, any_version=True):
            yield OpenLetterRow(item)

    async def count_open(self, ref: JobRef) -> int:
        """Count the open dead letters of a job."""
        found = self.table.query(ref.pk)
        return sum([is_open(item) async for item in found])

    async def count(self, ref: JobRef, most: int) -> LetterCounts:
        """Count the dead letters of a job among the first so many."""
        counts, damaged = LetterCounts(), list[DeadLetterRow]()
        items = await self.table.first(ref.pk, most)
        for item in items:
            if is_open(item):
                counts.open += 1
                DeadLetterRow.read(item, damaged)
            if item.get("state") != REDRIVEN and item["sk"].startswith(
                keys.CHUNK_PREFIX
            ):
                number = int(item["sk"].split("#")[1])
                counts.dead[number] = str(item.get("error_code", ""))
                if at := read_optional_text(item, "dead_lettered_at"):
                    counts.died_at.append(at)
                if not is_open(item):
                    counts.discarded.add(number)
        counts.damaged = [letter.ref for letter in damaged]
        counts.complete = len(items) < most
        return counts

    async def stopped_keys(self, job: Job) -> frozenset[str]:
        """Return the order keys of a job that an open dead letter stops."""
        if not job.is_ordered:
            return frozenset()
        found = self.table.query(job.ref.pk, any_version=True)
        return keys_stopped_by([item async for item in found])

    def redrive_writes(
        self,
        letter: DeadLetterRow,
        next_gen: int,
        by: Closing,
        patched: Patched | None = None,
    ) -> list[ItemWrite]:
        """Return OPEN -> REDRIVEN, for the transaction that reopens the chunk."""
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

    async def discard(
        self, letter: DeadLetterRow, by: Closing, also: Sequence[ItemWrite] = ()
    ) -> bool:
        """Move OPEN -> DISCARDED: an operator decided that the chunk stays dead.

        `also` is written in the same transaction, such as the skip of the chunk.
        """
        update = (
            "SET #state = :discarded, discarded_at = :now,"
            " discarded_by = :actor, discard_reason = :reason"
        )
        writes = self._closing(letter, update, {"discarded": DISCARDED}, by)
        return isinstance(await self.table.transact([*writes, *also]), Written)

    def _closing(
        self, letter: DeadLetterRow, update: str, values: dict[str, Any], by: Closing
    ) -> list[ItemWrite]:
        close = self.table.item_write(
            "Update",
            letter.job.pk,
            keys.dead_letter_sk(letter.chunk, letter.gen),
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
        unlist = self.table.item_write(
            "Delete", *open_letter_key(letter.ref, letter.gen, letter.dead_lettered_at)
        )
        return [close, unlist]


def compensation_errors(
    compensated: Mapping[str, ErrorEnvelope | None],
) -> list[dict[str, str]]:
    """Return why compensations failed, by stage."""
    return [
        {"stage": stage, "code": failure.code, "message": failure.message}
        for stage, failure in compensated.items()
        if failure is not None
    ]


def stored_error(row: ErrorRow) -> dict[str, Any]:
    """Return the error that ended a claim, with the worker of the claim.

    Return the code of a damaged row: it must not keep its chunk from ending.
    """
    try:
        error = read_document(read_text(row.item, "error", "An error"), "An error")
    except PermanentError as unreadable:
        error = {"code": unreadable.code}
    return error | {"worker": read_optional_text(row.item, "worker")}


# ── record of raised alarms ───────────────────────────────────────────────────

#: The alarm was never raised, or its quiet time is over.
NOT_RAISED = "attribute_not_exists(pk) OR quiet_until <= :now"
#: And a dead letter has arrived since.
NEWS = "attribute_not_exists(newest) OR newest < :newest"
NOT_RAISED_FOR = f"({NOT_RAISED}) AND ({NEWS})"


async def raise_alarm(
    table: Table,
    tenant: str,
    about: str,
    *,
    now: float,
    quiet_s: float,
    newest: str = "",
    also: Sequence[ItemWrite] = (),
) -> bool:
    """Record an alarm for `quiet_s` seconds; return whether this process raised it.

    `newest` is the time of a dead letter. An alarm with it is raised only if that time
    is later than in the alarm before. `also` is written in the same transaction.
    """
    token = f"{table.rng.getrandbits(128):032x}"
    facts = {
        "kind": "alarm",
        "raised_at": iso(now),
        "quiet_until": iso(now + quiet_s),
        "alarm_token": token,
    }
    if newest:
        facts["newest"] = newest
    write = table.item_write(
        "Update",
        keys.alarms_pk(tenant),
        about,
        condition=NOT_RAISED_FOR if newest else NOT_RAISED,
        update="SET " + ", ".join(f"{name} = :{name}" for name in facts),
        values={**facts, "now": iso(now)},
    )
    if also:
        return isinstance(await table.transact([write, *also]), Written)
    reply = await table.update(write, returning="NONE")
    # A refusal with our own token: the first copy was applied, its answer lost.
    return isinstance(reply, Written) or (reply.item or {}).get("alarm_token") == token


# ── TTL attribute of items ────────────────────────────────────────────────────
#
# DynamoDB deletes days late, so no lease relies on it. Those of a job's rows are in
# `piecework.domain.retention`.


def expires_at(now: float, days: float) -> int:
    """Return the TTL in whole seconds of Unix time, `days` after `now`."""
    return int(now + days * DAY_S)


# ── index of open dead letters by time ────────────────────────────────────────
#
# A mark is written with its dead letter and deleted with the write that closes it. So
# the reconciler finds the open dead letters without a scan.


def open_mark(table: Table, letter: dict[str, Any]) -> ItemWrite:
    """Return the write of the mark of a new dead letter."""
    of_chunk = ("tenant", "job", "chunk", "gen")
    names = (*of_chunk, "pipeline", "fingerprint", "dead_lettered_at")
    facts = {name: letter[name] for name in names if name in letter}
    ref = ChunkRef(letter["tenant"], letter["job"], letter["chunk"])
    return table.item_write(
        "Put",
        *open_letter_key(ref, letter["gen"], letter["dead_lettered_at"]),
        item={"kind": "open", **facts},
    )


def open_letter_key(ref: ChunkRef, gen: int, dead_lettered_at: str) -> tuple[str, str]:
    """Return partition and sort key of the mark of a dead letter."""
    sk = keys.open_letter_sk(dead_lettered_at, ref.job, ref.chunk, gen)
    return keys.open_letters_pk(ref.tenant), sk


def is_open(item: Mapping[str, Any]) -> bool:
    """Return whether no operator has closed a dead letter, which may be damaged."""
    return item.get("state") not in (REDRIVEN, DISCARDED)


def keys_stopped_by(items: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return the order keys that open ones of these dead letters stop.

    A damaged dead letter stops its key, too: its later chunks wait for an operator.
    """
    open_ = {read_optional_text(item, "order_key") for item in filter(is_open, items)}
    return frozenset(filter(None, open_))


async def newest(table: Table, tenant: str, count: int) -> list[OpenLetterRow]:
    """Return the marks of the last written dead letters, the newest first."""
    pk = keys.open_letters_pk(tenant)
    return [OpenLetterRow(i) for i in await table.first(pk, count, backwards=True)]


async def oldest(table: Table, tenant: str) -> OpenLetterRow | None:
    """Return the mark of the dead letter that has been open for longest."""
    found = await table.first(keys.open_letters_pk(tenant), 1)
    return OpenLetterRow(found[0]) if found else None
