"""The records of idempotent operations in a table.

An operation starts if it has no record, or if its record is expired or released. An
operation in doubt starts again if its record is unchanged since it was read. In a
stream only the due number starts; its end makes the next number due, in one
transaction. A call that asks again with its own token continues its record, and gets
the answer of an ended one.

DynamoDB deletes expired rows days late. So each read and each condition compares
`valid_until`, and `expires_at` only serves the deletion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from piecework.aws.objects import INLINE_LIMIT
from piecework.domain import keys
from piecework.domain.moments import iso, moment
from piecework.domain.schema import require_known
from piecework.idempotency.record import (
    BeginRequest,
    Ended,
    Granted,
    InProgress,
    OperationRef,
    OutOfOrder,
    Record,
    State,
    Verdict,
    begun_record,
    in_doubt,
    judge,
)
from piecework.store.dead_letters import expires_at
from piecework.store.table import Item, ItemWrite, Refused, Table, Written

#: The operation has no owner and no outcome. The token excludes a late copy of the
#: request that started it. The copy would start an operation without an owner.
NOT_OWNED = (
    "attribute_not_exists(pk)"
    " OR ((valid_until <= :now OR #state = :released) AND owner_token <> :token)"
)
#: The record is still the one that was read. A chunk begins its own call again with the
#: same token, and each beginning has another lease.
AS_READ = "owner_token = :seen AND #state = :seen_state AND lease_until = :seen_lease"
#: No other call has started the operation since, and no other claim of the same chunk
#: has stored its answer.
STILL_OWNED = "owner_token = :token AND #state <> :done"
#: The stream has no completed number.
NO_NUMBER_DONE = "attribute_not_exists(pk)"
#: All earlier numbers of the stream are completed, and this one is not.
NUMBER_DUE = "due_number = :number"

#: How often `begin` reads and writes while other processes change the record. After
#: that it reports the operation as in progress, with these seconds as the hint.
READS = 8
READ_AGAIN_S = 0.1


@dataclass(slots=True)
class TableIdempotency:
    """A store of idempotency records for many processes.

    Attributes:
        table: The checkpoints table, or any other with the keys `pk` and `sk`.
        clock: Returns seconds since 1970, such as the corrected `runtime.clock`.
        clock_skew_s: Seconds by which the clocks of two processes may differ.
    """

    table: Table
    tenant: str
    clock: Callable[[], float]
    _: KW_ONLY
    clock_skew_s: float = 5.0

    async def begin(self, request: BeginRequest) -> Verdict:
        """Start an operation, or return why that is refused."""
        seen: Record | None = None
        for _ in range(READS):
            now = self.clock()
            begun = self._begun(request, now)
            reply = await self._put(request.ref, begun, seen, now)
            doubtful = seen is not None and not is_own(seen, request)
            if isinstance(reply, Written):
                return Granted(doubtful)
            if request.ref.number and 0 in reply.refused:
                verdict = await self._out_of_turn(request, reply.item, now)
                if verdict is not None:
                    return verdict
                continue
            seen = read(reply.refused[1] if request.ref.number else reply.item)
            if seen is not None and row(seen) == row(begun):
                return Granted(doubtful)  # the answer to our own write was lost
            verdict = judge(seen, request, now)
            if not isinstance(verdict, Granted):
                return verdict
            seen = seen if verdict.doubtful or is_own(seen, request) else None
        return InProgress(READ_AGAIN_S)

    def _begun(self, request: BeginRequest, now: float) -> Record:
        lease_s = request.lease_s + self.clock_skew_s
        return begun_record(replace(request, lease_s=lease_s), now)

    async def _put(
        self, ref: OperationRef, record: Record, seen: Record | None, now: float
    ) -> Written | Refused:
        free = {
            "now": iso(now),
            "released": State.RELEASED,
            "token": record.owner_token,
        }
        put = self.table.item_write(
            "Put",
            *self._place(ref),
            condition=NOT_OWNED if seen is None else AS_READ,
            values=free if seen is None else as_seen(seen),
            item={"operation": ref.operation, "started_at": iso(now), **row(record)},
        )
        if not ref.number:
            return await self.table.put(put)
        return await self.table.transact([self._head("ConditionCheck", ref), put])

    async def _out_of_turn(
        self, request: BeginRequest, head: Item | None, now: float
    ) -> Verdict | None:
        """Return the verdict on a number that is not due; None: it is due now."""
        due = 1 if head is None else int(head["due_number"])
        if request.ref.number >= due:
            return OutOfOrder(due) if request.ref.number > due else None
        record = read(await self.table.get(*self._place(request.ref)))
        verdict = judge(record, request, now)
        return Ended(State.DONE, None) if isinstance(verdict, Granted) else verdict

    async def settle(
        self, request: BeginRequest, state: State, value: str | None = None
    ) -> bool:
        """Write the end of an operation; False: another call has started it since.

        A value above 64 KiB is not stored; the state is.
        """
        now, ref = self.clock(), request.ref
        facts: Item = {"state": state, "ended_at": iso(now)}
        if state in {State.DONE, State.REFUSED}:
            facts |= valid_until(now + request.ttl_s)
            if value is not None and len(value.encode()) <= INLINE_LIMIT:
                facts["value"] = value
        elif state is State.RELEASED:
            facts |= valid_until(now)  # as good as no record
        assignments = ", ".join(f"#{name} = :{name}" for name in facts)
        end = self.table.item_write(
            "Update",
            *self._place(ref),
            condition=STILL_OWNED,
            update=f"SET {assignments}",
            values={"token": request.owner_token, "done": State.DONE, **facts},
        )
        reply: Written | Refused
        if ref.number and state is State.DONE:
            following = self._head(
                "Update",
                ref,
                update="SET due_number = :following",
                following=ref.number + 1,
            )
            reply = await self.table.transact([following, end])
        else:
            reply = await self.table.update(end, returning="NONE")
            if isinstance(reply, Refused) and state is State.DONE:
                # The answer to our own write was lost, or an earlier claim was quicker.
                return is_own(read(reply.item), request)
        return isinstance(reply, Written)

    async def release(self, ref: OperationRef) -> bool:
        """Write that an operation in doubt did not happen; False: not in doubt."""
        now, record = self.clock(), read(await self.table.get(*self._place(ref)))
        if record is None or not in_doubt(record, now):
            return False
        write = self.table.item_write(
            "Update",
            *self._place(ref),
            condition=AS_READ,
            update="SET #state = :released, #valid_until = :valid_until, "
            "#expires_at = :expires_at",
            values={"released": State.RELEASED, **valid_until(now), **as_seen(record)},
        )
        reply = await self.table.update(write, returning="NONE")
        return isinstance(reply, Written)

    def _head(
        self, kind: str, ref: OperationRef, update: str = "", **values: int
    ) -> ItemWrite:
        """Return the check or the update of a stream's head, if the number is due."""
        first = ref.number == 1
        compared = {} if first else {"number": ref.number}
        return self.table.item_write(
            kind,
            keys.idempotency_pk(self.tenant, ref.key),
            keys.HEAD_SK,
            condition=NO_NUMBER_DONE if first else NUMBER_DUE,
            update=update,
            values={**compared, **values},
        )

    def _place(self, ref: OperationRef) -> tuple[str, str]:
        sk = keys.number_sk(ref.number) if ref.number else keys.RECORD_SK
        return keys.idempotency_pk(self.tenant, ref.key), sk


def read(item: Item | None) -> Record | None:
    """Return a row as a record.

    Raises:
        SchemaTooNewError: A newer version wrote the row.
    """
    if item is None:
        return None
    item = require_known(item)
    until = item.get("valid_until")
    return Record(
        State(item["state"]),
        item["payload_sha256"],
        item["owner_token"],
        lease_until=moment(item["lease_until"]),
        valid_until=None if until is None else moment(until),
        value=item.get("value"),
    )


def row(record: Record) -> Item:
    """Return the row of an operation that starts."""
    return {
        "state": record.state,
        "payload_sha256": record.payload,
        "owner_token": record.owner_token,
        "lease_until": iso(record.lease_until),
        **({} if record.valid_until is None else valid_until(record.valid_until)),
    }


def valid_until(until: float) -> Item:
    """Return until when a row is valid, and when it may be deleted: a day later."""
    return {"valid_until": iso(until), "expires_at": expires_at(until, days=1)}


def is_own(record: Record | None, request: BeginRequest) -> bool:
    """Return whether a record has the token of a request."""
    return record is not None and record.owner_token == request.owner_token


def as_seen(record: Record) -> dict[str, Any]:
    """Return the values that `AS_READ` compares."""
    return {
        "seen": record.owner_token,
        "seen_state": record.state,
        "seen_lease": iso(record.lease_until),
    }
