"""The rungs of dead letters: each letter stores how far it has climbed.

The outbox of the tenant has a mark under the time of the next rung. So the process that
delivers webhooks finds due rungs without a scan. Each write names the version of the
climb that it follows: of two processes one makes it.

    waiting     until the time of the next rung
    dispatched  the worker of a hook has a message
    calling     a worker awaits the hook, until `call_at`
    reached     the rung has its time in `reached_at`; the next one waits
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from piecework.domain import keys
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.ladder import Climb, Escalation, escalation_of
from piecework.domain.moments import iso
from piecework.domain.records import reading
from piecework.domain.refs import ChunkRef
from piecework.domain.webhook import WebhookEvent, event_id
from piecework.store.dead_letters import OPEN, STILL_OPEN
from piecework.store.outbox import RungMark, rung_mark, tell
from piecework.store.table import ItemWrite, Table, Written

#: No other process has moved the climb since it was read.
SAME_CLIMB = "ladder_version = :seen"
#: And no operator has closed the dead letter.
STILL_CLIMBS = f"{STILL_OPEN} AND {SAME_CLIMB}"


def start_writes(table: Table, letter: dict[str, Any]) -> list[ItemWrite]:
    """Return the write of the mark of a new dead letter; none without a ladder."""
    at = letter.get("rung_wake_at")
    ref = ChunkRef(letter["tenant"], letter["job"], letter["chunk"])
    return [rung_mark(table, "Put", ref, letter["gen"], at)] if at else []


@dataclass(frozen=True, slots=True)
class Climber:
    """A dead letter with a rung ahead."""

    letter: DeadLetterRow
    climb: Climb

    @property
    def escalation(self) -> Escalation:
        """What the hook of the next rung receives."""
        return escalation_of(self.letter, self.climb.rungs[self.climb.position].name)


@dataclass(slots=True)
class Ladders:
    """The climbs of a deployment's dead letters."""

    table: Table
    dead_letters: Table
    clock: Callable[[], float]

    async def read(self, ref: ChunkRef, gen: int) -> Climber | None:
        """Return an open dead letter with a rung ahead; None: it does not climb.

        Raises:
            PermanentError: `runtime.record.unreadable`.
        """
        sk = keys.dead_letter_sk(ref.chunk, gen)
        item = await self.dead_letters.get(ref.of.pk, sk)
        letter = None if item is None else DeadLetterRow.read(item)
        if letter is None or letter.state != OPEN:
            return None
        with reading("The ladder of a dead letter"):
            climb = Climb.of(letter)
            climbs = climb is not None and climb.next is not None
        return Climber(letter, climb) if climb is not None and climbs else None

    async def forget(self, mark: RungMark) -> None:
        """Remove a mark whose letter was closed, has moved on, or is gone."""
        gone = rung_mark(self.table, "Delete", mark.ref, mark.gen, mark.due_at)
        await self.table.delete(gone)

    async def dispatch(self, at: Climber, seconds: float) -> bool:
        """Move waiting -> dispatched: a message follows, and another after `seconds`.

        A process that dies before it sends the message is followed after that time.
        """
        until = self.clock() + seconds
        return await self._move(at, STILL_CLIMBS, at.climb.waiting(until))

    async def take(self, at: Climber, seconds: float) -> Climber | None:
        """Move dispatched -> calling for `seconds`; None: another worker calls."""
        calling = at.climb.calling(self.clock(), seconds)
        if not await self._move(at, STILL_CLIMBS, calling):
            return None
        return replace(at, climb=calling)

    async def schedule_retry(self, at: Climber, seconds: float, error: str) -> bool:
        """Move calling -> waiting: the hook failed, and is called after `seconds`."""
        again = self.clock() + seconds
        climb = at.climb.waiting(again, call_at=iso(again), error=error)
        return await self._move(at, STILL_CLIMBS, climb)

    async def reach(self, at: Climber, error: str = "") -> bool:
        """Move waiting or calling -> reached, and tell the webhooks.

        `error`: why the hook was abandoned. After a call the state of the letter does
        not count, because the hook has returned.
        """
        now, called = self.clock(), at.climb.rungs[at.climb.position].calls
        also = await tell(self.table, escalated_event(at.escalation, now, error), now)
        condition = SAME_CLIMB if called else STILL_CLIMBS
        return await self._move(at, condition, at.climb.reached(now, error), also)

    async def _move(
        self, at: Climber, condition: str, climb: Climb, also: Sequence[ItemWrite] = ()
    ) -> bool:
        """Replace a climb, and the mark of its time."""
        letter, facts = at.letter, climb.facts
        seen: dict[str, Any] = {"seen": at.climb.version}
        if ":open" in condition:
            seen["open"] = OPEN
        stored = {name: value for name, value in facts.items() if value is not None}
        update = "SET " + ", ".join(f"{name} = :{name}" for name in stored)
        if not climb.wake_at:
            update += " REMOVE rung_wake_at"
        write = self.dead_letters.item_write(
            "Update",
            letter.job.pk,
            keys.dead_letter_sk(letter.chunk, letter.gen),
            condition=condition,
            update=update,
            values={**stored, **seen},
        )
        moved = [
            rung_mark(self.table, kind, letter.ref, letter.gen, time)
            for kind, time in (("Delete", at.climb.wake_at), ("Put", climb.wake_at))
            if time and at.climb.wake_at != climb.wake_at
        ]
        reply = await self.table.transact([write, *moved, *also])
        return isinstance(reply, Written)


def escalated_event(reached: Escalation, now: float, error: str) -> WebhookEvent:
    """Return the event of a dead letter that reached a rung."""
    chunk = "join" if reached.chunk == keys.JOIN_CHUNK else str(reached.chunk)
    return WebhookEvent(
        kind="dead_letter.escalated",
        id=event_id(
            *(reached.tenant, reached.job, reached.chunk, reached.gen, reached.rung)
        ),
        at=iso(now),
        tenant=reached.tenant,
        pipeline=reached.pipeline,
        job=reached.job,
        text=f"Dead letter {reached.job} {chunk} reached {reached.rung}: "
        f"{reached.error_code}.",
        command=f"piecework dlq show {reached.job} {chunk}",
        data={
            "rung": reached.rung,
            "chunk": reached.chunk,
            "gen": reached.gen,
            "error_code": reached.error_code,
            "fingerprint": reached.fingerprint,
            "dead_lettered_at": reached.dead_lettered_at,
            "hook_error": error,
        },
    )
