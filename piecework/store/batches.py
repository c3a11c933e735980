"""The batch lane in the tables: requests of claims, batches, answers, collectors.

    settlement     request OPEN, gathered; the chunk waits      one transaction
    plan           the batch, under the fence of its collector
    created        PLANNED -> CREATED, with the id of the provider
    answer         once for each call of a request
    close          OPEN -> OVER | DIRECT, what its answers cost, the wake of its chunk
    end            the batch leaves those that are open

`close` counts on the chunk, and a request is open once. So two collectors that read the
same output book each answer once, and a killed one repeats nothing that it wrote.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from piecework.aws.objects import Objects
from piecework.domain import keys
from piecework.domain.batch import (
    AskedRow,
    BatchPhase,
    CollectorRow,
    Member,
    PlannedRow,
    Request,
    RequestState,
)
from piecework.domain.call_usage import CallUsage
from piecework.domain.chunk import Chunk
from piecework.domain.claim import Claim
from piecework.domain.moments import iso, moment
from piecework.domain.outcome import BATCH
from piecework.domain.packed import packed
from piecework.domain.refs import ChunkRef
from piecework.domain.states import ChunkStatus
from piecework.errors import StoreError
from piecework.resilience.batching import REMEMBERED
from piecework.store.batch_reads import BatchReads, Place
from piecework.store.completion import read_chunk
from piecework.store.table import ItemWrite, Table, Written
from piecework.store.waits import entry

NEW: Final = "attribute_not_exists(pk)"
#: No worker collects, or the one that did has died; clocks decide only when a worker
#: tries.
FREE: Final = "(attribute_not_exists(lease_until) OR lease_until < :now)"
MINE: Final = "fence = :fence AND #owner = :owner"
#: An operator has called the collector, and not again since.
CALLED: Final = "called_at = :seen"
#: No collector is needed so far, or only later.
IDLE: Final = "(attribute_not_exists(next_at) OR next_at > :at)"
#: A collector is needed; a pass that has begun may not have seen why.
NEEDED: Final = "attribute_exists(next_at)"
#: No process has noted a need since the row was read.
UNNOTED: Final = "(attribute_not_exists(notes) OR notes = :notes)"
PLANNED: Final = "phase = :planned"
CREATED: Final = "phase = :created"
IS_OPEN: Final = "#state = :open"
#: What the chunk has booked of batches is what was read.
SAME: Final = "attribute_exists(pk) AND batch_usage = :seen"
FIRST: Final = "attribute_exists(pk) AND attribute_not_exists(batch_usage)"
#: The chunk still waits for a batch, since the same claim.
WAITS: Final = (
    "#status = :waiting AND gen = :gen AND fence = :fence AND blocked_on = :batch"
    " AND attribute_not_exists(cancel_requested_at)"
)
#: Jobs that the row of an ended batch names.
NAMED_JOBS: Final = 20
#: Seconds for which a batch that has ended is listed.
LISTED_S: Final = 30 * 86_400.0
#: Writes that DynamoDB accepts in a transaction.
AT_ONCE: Final = 100
#: Writes of a close while other closes of the chunk come between.
TRIES: Final = 10
#: Seconds before a pass in which it may begin already, by another clock.
SOON_S: Final = 5.0


def request_writes(
    table: Table, claim: Claim, part: int, request: Request, now: float
) -> list[ItemWrite]:
    """Return the writes of a request, for the transaction in which its chunk waits."""
    ref = claim.ref
    common = {
        "gen": claim.gen,
        "fence": claim.fence,
        "part": part,
        "rows": len(request.bodies),
        "until": iso(request.until),
        "held_tokens": request.held.tokens or None,
        "held_nano_usd": request.held.nano_usd or None,
        "expires_at": claim.expires_at,
    }
    row = {
        **common,
        "key": request.key,
        "model": request.model,
        "state": RequestState.OPEN,
        "ids": packed({"ids": list(request.bodies)}),
        "since": iso(request.since),
        "due": iso(request.due),
        "tries": request.tries,
    }
    at = iso(now)
    gathered = {
        **common,
        "tenant": ref.tenant,
        "job": ref.job,
        "chunk": ref.chunk,
        "size": request.size,
        "asked_at": at,
    }
    place = ref.chunk, claim.fence, part
    pk = keys.batches_pk(ref.tenant, request.key)
    asked_sk = keys.asked_sk(at, ref.job, *place)
    return [
        table.item_write("Put", ref.pk, keys.request_sk(*place), item=row),
        table.item_write("Put", pk, asked_sk, item=gathered),
    ]


@dataclass(slots=True)
class Batches(BatchReads):
    """The batches of a deployment, as one process reads and writes them."""

    objects: Objects
    clock: Callable[[], float]

    # The collector of a model.

    async def need(self, place: Place, when: float, **facts: Any) -> float:
        """Note that a collector of a model is needed; return when the next pass is.

        No pass that begins before sees less than is there now. One that may have begun
        already finds at its end that a need was noted.
        """
        assigned = "".join(f", #{name} = :{name}" for name in facts)
        noted = {"one": 1, "noted": iso(self.clock())}
        values = {"at": iso(when), **noted, **facts}
        also = "noted_at = :noted ADD notes :one"
        update = f"SET next_at = :at{assigned}, {also}"
        first = self._on_collector(place, IDLE, update, values)
        again = self._on_collector(place, NEEDED, f"SET {also}", noted)
        while not isinstance(reply := await self.table.update(first), Written):
            found = (reply.item or {}).get("next_at", "")
            if found > iso(self.clock() + SOON_S):
                return moment(found)
            reply = await self.table.update(again, returning="NONE")
            if isinstance(reply, Written):
                return moment(found) if found else when
        return when

    async def call(self, place: Place, **facts: Any) -> bool:
        """Let a collector of a model look now; False: the model has none.

        A pass that runs meanwhile says when the next one is due, and may not have seen
        why it is called. So the call stays until a pass that saw it has ended.
        """
        now = iso(self.clock())
        more = "".join(f", #{name} = :{name}" for name in facts)
        write = self._on_collector(
            place,
            "attribute_exists(pk)",
            f"SET next_at = :now, called_at = :now{more}",
            {"now": now, **facts},
        )
        return isinstance(await self.table.update(write, returning="NONE"), Written)

    async def heard(self, place: Place, row: CollectorRow) -> bool:
        """End a call that a pass has seen; False: another call has come."""
        values = {"seen": row.called_at}
        write = self._on_collector(place, CALLED, "REMOVE called_at", values)
        return isinstance(await self.table.update(write, returning="NONE"), Written)

    async def send_back(self, place: Place) -> bool:
        """Let the collector send the requests back that are gathered: they go direct.

        False: the model has no collector.
        """
        return await self.call(place, direct_at=iso(self.clock()))

    async def take(self, place: Place, owner: str, lease_s: float) -> int | None:
        """Become the collector of a model; return the fence. None: another one is."""
        now = self.clock()
        values = {"now": iso(now), "owner": owner, "until": iso(now + lease_s)}
        write = self._on_collector(
            place,
            FREE,
            "SET #owner = :owner, lease_until = :until ADD fence :one",
            {**values, "one": 1},
        )
        reply = await self.table.update(write)
        item = reply.item or {}
        # Refused by its own first copy: the answer was lost.
        ours = item.get("owner") == owner and item.get("lease_until") == values["until"]
        return int(item["fence"]) if isinstance(reply, Written) or ours else None

    async def renew(self, place: Place, owner: str, fence: int, lease_s: float) -> bool:
        """Stay the collector of a model; False: another one is."""
        values = {"fence": fence, "owner": owner}
        until = {"until": iso(self.clock() + lease_s)}
        update = "SET lease_until = :until"
        write = self._on_collector(place, MINE, update, values | until)
        return isinstance(await self.table.update(write, returning="NONE"), Written)

    async def leave(
        self,
        place: Place,
        owner: str,
        fence: int,
        next_at: float | None,
        took: Sequence[int],
        nudge: Mapping[str, Any] | None = None,
        *,
        notes: int | None = None,
        **told: Any,
    ) -> bool:
        """End as the collector of a model; without `next_at` nothing is open.

        `nudge`: a chunk whose message starts a worker for the next pass. `notes`: how
        many needs the pass has seen; False: there was another one since. `told`: the
        batches that the pass has left open, or its error.
        """
        last = list(took)[-REMEMBERED:]
        values: dict[str, Any] = {"fence": fence, "owner": owner, "took": last, **told}
        condition = MINE
        if notes is not None:
            condition += f" AND {UNNOTED}"
            values["notes"] = notes
        assigned, removed = "took = :took", "lease_until, #owner"
        assigned += "".join(f", #{name} = :{name}" for name in told)
        if next_at is None:
            removed += ", next_at"
        else:
            assigned += ", next_at = :next"
            values["next"] = iso(next_at)
        if nudge is not None:
            assigned += ", nudge = :nudge"
            values["nudge"] = dict(nudge)
        update = f"SET {assigned} REMOVE {removed}"
        write = self._on_collector(place, condition, update, values)
        return isinstance(await self.table.update(write, returning="NONE"), Written)

    def _on_collector(
        self, place: Place, condition: str, update: str, values: Mapping[str, Any]
    ) -> ItemWrite:
        return self.table.item_write(
            "Update",
            keys.ACTIVE_PK,
            keys.collector_sk(*place),
            condition=condition,
            update=update,
            values=values,
        )

    # The gathered requests of a model, and its batches.

    async def still_open(
        self, rows: Sequence[AskedRow]
    ) -> tuple[list[AskedRow], list[AskedRow]]:
        """Return the gathered requests that are open, and those that are closed.

        A collector that closed one may have died before it removed it here.
        """
        places = [
            (
                row.of.chunk(row.chunk).pk,
                keys.request_sk(row.chunk, row.fence, row.part),
            )
            for row in rows
        ]
        found = await self.table.get_many(places)
        is_open = [
            found.get(place, {}).get("state") == RequestState.OPEN for place in places
        ]
        both = [*zip(rows, is_open, strict=True)]
        return [row for row, yes in both if yes], [row for row, yes in both if not yes]

    async def drop_asked(self, place: Place, rows: Sequence[AskedRow]) -> None:
        """Remove gathered requests: a batch has them, or they were sent back."""
        pk = keys.batches_pk(*place)
        gone = [self.table.item_write("Delete", pk, row.item["sk"]) for row in rows]
        for first in range(0, len(gone), AT_ONCE):
            await self.table.transact(gone[first : first + AT_ONCE])

    async def plan(
        self, place: Place, owner: str, fence: int, facts: Mapping[str, Any]
    ) -> bool:
        """Write a batch ahead, as PLANNED; False: another collector has the model."""
        check = self.table.item_write(
            "ConditionCheck",
            keys.ACTIVE_PK,
            keys.collector_sk(*place),
            condition=MINE,
            values={"fence": fence, "owner": owner},
        )
        put = self.table.item_write(
            "Put",
            keys.batches_pk(*place),
            keys.batch_sk(facts["digest"]),
            condition=NEW,
            item={**facts, "phase": BatchPhase.PLANNED},
        )
        return isinstance(await self.table.transact([check, put]), Written)

    async def try_again(self, place: Place, row: PlannedRow, *, doubtful: bool) -> bool:
        """Note that a creation is repeated; False: another collector repeats it.

        `doubtful`: the provider may have the batch all the same, and bill it.
        """
        condition = f"{PLANNED} AND tried_at = :seen"
        values: dict[str, Any] = {"seen": row.tried_at, "now": iso(self.clock())}
        update = "SET tried_at = :now"
        if doubtful:
            update += " ADD doubts :one"
            values |= {"one": 1}
        return await self._change(place, row, condition, update, values)

    async def doubt(self, place: Place, row: PlannedRow) -> bool:
        """Note that the provider has the batch twice, and may bill both."""
        exists, values = "attribute_exists(pk)", {"one": 1}
        return await self._change(place, row, exists, "ADD doubts :one", values)

    async def created(
        self, place: Place, row: PlannedRow, batch: str, next_at: float
    ) -> bool:
        """Move PLANNED -> CREATED: the provider has the batch, under an id."""
        update = "SET phase = :created, #batch = :batch, next_at = :next"
        values = {"batch": batch, "next": iso(next_at)}
        return await self._change(place, row, PLANNED, update, values)

    async def note(
        self, place: Place, row: PlannedRow, next_at: float, **facts: Any
    ) -> bool:
        """Note what a batch has told, and when it is asked for next."""
        assigned = "".join(f", #{name} = :{name}" for name in facts)
        update = f"SET next_at = :next{assigned}"
        values = {"next": iso(next_at), **facts}
        return await self._change(place, row, CREATED, update, values)

    async def want(
        self, place: Place, row: PlannedRow, wanted: str, actor: str, reason: str
    ) -> bool:
        """Note what an operator wants of a batch, and let a collector look now.

        False: the batch has ended.
        """
        update = "SET wanted = :wanted, wanted_by = :actor, wanted_why = :reason"
        values = {"wanted": wanted, "actor": actor, "reason": reason}
        condition = "attribute_exists(pk)"
        if not await self._change(place, row, condition, update, values):
            return False
        await self.call(place)
        return True

    async def _change(
        self,
        place: Place,
        row: PlannedRow,
        condition: str,
        update: str,
        values: Mapping[str, Any],
    ) -> bool:
        phases = {"planned": BatchPhase.PLANNED, "created": BatchPhase.CREATED}
        used = {n: v for n, v in phases.items() if f":{n}" in f"{condition} {update}"}
        write = self.table.item_write(
            "Update",
            keys.batches_pk(*place),
            keys.batch_sk(row.digest),
            condition=condition,
            update=update,
            values={**used, **values},
        )
        return isinstance(await self.table.update(write, returning="NONE"), Written)

    async def end(
        self, place: Place, row: PlannedRow, phase: str, **facts: Any
    ) -> bool:
        """Let a batch leave those that are open; False: another collector did that."""
        pk, now = keys.batches_pk(*place), self.clock()
        gone = {"pk", "sk", "v", "members", "next_at", "wanted"}
        kept = {name: fact for name, fact in row.item.items() if name not in gone}
        item = {**kept, **facts, "phase": phase, "ended_at": iso(now)}
        jobs = dict.fromkeys(each.job for each in row.members)
        item["jobs"] = list(jobs)[:NAMED_JOBS]
        item["expires_at"] = math.ceil(now + LISTED_S)
        writes = [
            self.table.item_write(
                "Delete",
                pk,
                keys.batch_sk(row.digest),
                condition="attribute_exists(pk)",
            ),
            self.table.item_write(
                "Put", pk, keys.ended_batch_sk(iso(now), row.digest), item=item
            ),
        ]
        return isinstance(await self.table.transact(writes), Written)

    # The answers, and the end of a request.

    async def answer(
        self, ref: ChunkRef, fence: int, custom_id: str, text: str, batch: str
    ) -> bool:
        """Write the answer to a request for a call; False: it is written already."""
        stem = keys.call_value_key(ref.tenant, ref.job, custom_id)
        value = await self.objects.put_value(text, stem)
        write = self.table.item_write(
            "Put",
            ref.pk,
            keys.answer_sk(ref.chunk, custom_id, fence),
            condition=NEW,
            item={"custom_id": custom_id, "fence": fence, "batch": batch, **value},
        )
        return isinstance(await self.table.put(write), Written)

    async def chunks(self, refs: Iterable[ChunkRef]) -> dict[ChunkRef, Chunk]:
        """Return the chunks of requests that are about to be closed, if they exist."""
        places = {(ref.pk, ref.sk): ref for ref in refs}
        found = await self.table.get_many(places)
        return {places[at]: Chunk.read(places[at], item) for at, item in found.items()}

    async def close(
        self,
        chunk: Chunk,
        member: Member,
        state: RequestState,
        usage: CallUsage,
        failed: Mapping[str, Any],
    ) -> Closed | None:
        """Move OPEN -> OVER | DIRECT: count what its answers cost, wake its chunk.

        None: it is closed already, or its chunk is gone.

        Raises:
            StoreError: `aws.service.unavailable`: other closes of the chunk came
                between each time.
        """
        for _ in range(TRIES):
            wakes = (
                chunk.status is ChunkStatus.WAITING
                and chunk.blocked_on == BATCH
                and not chunk.is_cancel_requested
            )
            writes = self._closing(chunk, member, state, usage, failed, wakes=wakes)
            reply = await self.table.transact(writes)
            if isinstance(reply, Written):
                return Closed(chunk, is_woken=wakes)
            if 0 in reply.refused:  # also by its own first copy
                return None
            again = await read_chunk(self.table, chunk.ref)
            if again is None:
                return None
            chunk = again
        message = f"A request of {chunk.ref.job}/{chunk.ref.chunk} could not be closed."
        raise StoreError(message, code="aws.service.unavailable")

    def _closing(
        self,
        chunk: Chunk,
        member: Member,
        state: RequestState,
        usage: CallUsage,
        failed: Mapping[str, Any],
        *,
        wakes: bool,
    ) -> list[ItemWrite]:
        ref, now = chunk.ref, iso(self.clock())
        request = self.table.item_write(
            "Update",
            ref.pk,
            keys.request_sk(ref.chunk, member.fence, member.part),
            condition=IS_OPEN,
            update="SET #state = :state" + (", failed = :failed" if failed else ""),
            values={
                "open": RequestState.OPEN,
                "state": state,
                **({"failed": dict(failed)} if failed else {}),
            },
        )
        seen = chunk.batch_usage.item
        booked = chunk.batch_usage
        booked.merge(usage)
        parts, values, condition = (
            list[str](),
            dict[str, Any](),
            ["attribute_exists(pk)"],
        )
        if usage:
            condition = [SAME if seen else FIRST]
            parts.append("batch_usage = :usage")
            values |= {"usage": booked.item, **({"seen": seen} if seen else {})}
        if wakes:
            condition.append(WAITS)
            parts.append("due_at = :now, redispatch_at = :now")
            values |= {
                "now": now,
                "waiting": ChunkStatus.WAITING,
                "gen": chunk.gen,
                "fence": chunk.fence,
                "batch": BATCH,
            }
        if not parts:
            return [request]
        update = f"SET {', '.join(parts)}"
        update += " REMOVE retry_at, blocked_on" if wakes else ""
        on_chunk = self.table.item_write(
            "Update",
            ref.pk,
            ref.sk,
            condition=" AND ".join(condition),
            update=update,
            values=values,
        )
        entries = [entry(self.table, ref, chunk.gen, now)] if wakes else []
        return [request, on_chunk, *entries]


@dataclass(frozen=True, slots=True)
class Closed:
    """A request was closed by this process.

    Attributes:
        chunk: Its chunk, as it was read before.
        is_woken: Whether the chunk waits for its message now.
    """

    chunk: Chunk
    is_woken: bool
