"""How a claim ends: six fenced writes, one for each way out.

Each says whether it was we who ended it. A refusal is checked against our own fence
first: the answer to the first of two sends may have been lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from piecework import keys
from piecework.claim import Claim
from piecework.errors import ErrorEnvelope
from piecework.model import ChunkStatus, iso
from piecework.outcome import Cancelled, Dead, Parked
from piecework.settings import Settings
from piecework.store.calls_spent import Calls
from piecework.store.cancels import cancelled_at
from piecework.store.claims import HELD, held
from piecework.store.open_letters import open_mark
from piecework.store.table import Action, Refused, Table, Written
from piecework.store.trail import trail_put

#: Leaves the item without an owner. The token stays: it tells who wrote last.
LET_GO = "REMOVE claimed_by, claim_expires_at"


@dataclass(slots=True)
class Settlements:
    """The ends of one worker's claims."""

    table: Table
    dead_letters: Table
    settings: Settings
    clock: Callable[[], float]

    async def succeed(
        self,
        claim: Claim,
        *,
        result_sha256: str,
        value: str | None = None,
        also: Sequence[Action] = (),
        calls: Calls,
    ) -> bool:
        """Move RUNNING -> SUCCEEDED, together with the last stage's value.

        The value is on the chunk's item if it is given, else in a row of `also`.
        """
        assignments, values = "result_sha256 = :sha256", {"sha256": result_sha256}
        if value is not None:
            assignments += ", #value = :value"
            values["value"] = value
        update = self._end(
            claim,
            ChunkStatus.SUCCEEDED,
            assignments,
            values,
            calls=calls,
            remove=", error_code",
        )
        return await self._write(claim, ChunkStatus.SUCCEEDED, [update, *also])

    async def park(self, claim: Claim, parked: Parked, *, calls: Calls) -> bool:
        """Move RUNNING -> WAITING: it failed for now, and an attempt is spent."""
        update = self._wait(
            claim,
            "error_code = :code",
            {"code": parked.failure.code},
            parked.delay,
            calls,
        )
        trail = self._trail(claim, parked.failure)
        return await self._write(claim, ChunkStatus.WAITING, [update, trail])

    async def put_off(self, claim: Claim, parked: Parked, *, calls: Calls) -> bool:
        """Move RUNNING -> WAITING: a dependency is out of order, for all alike.

        What the claim was counted as is handed back, however often that is: the chunk
        has done nothing wrong. A pivot that was not tried remembers so for the claim
        after this one.
        """
        counted = counted_as(claim)
        untried = ", untried = :fence" if parked.untried else ""
        update = self._wait(
            claim,
            "error_code = :code, waits_for = :dependency,"
            f" {counted} = {counted} - :one{untried}",
            {
                "code": parked.failure.code,
                "dependency": parked.waits_for,
                "one": 1,
            },
            parked.delay,
            calls,
            also_added=", parks :one",
        )
        return await self._write(claim, ChunkStatus.WAITING, [update])

    async def release(self, claim: Claim, *, calls: Calls) -> bool:
        """Move RUNNING -> WAITING: the worker stops; what was counted is handed back.

        A chunk that was handed back too often keeps it: something about it makes
        workers stop.
        """
        handed_back = int(claim.chunk.item.get("releases", 0))
        given = 1 if handed_back < self.settings.max_releases else 0
        counted = counted_as(claim)
        update = self._wait(
            claim,
            f"{counted} = {counted} - :given",
            {"one": 1, "given": given},
            0.0,
            calls,
            also_added=", releases :one",
        )
        return await self._write(claim, ChunkStatus.WAITING, [update])

    async def bury(
        self,
        claim: Claim,
        dead: Dead,
        letter: dict[str, Any],
        *,
        resume_at: str,
        also: Sequence[Action],
        calls: Calls,
    ) -> bool:
        """Move RUNNING -> DEAD, together with the dead letter and the last error."""
        update = self._end(
            claim,
            ChunkStatus.DEAD,
            "error_code = :code, compensation = :compensation, resume_at = :resume",
            {
                "code": dead.failure.code,
                "compensation": dead.compensation,
                "resume": resume_at,
            },
            calls=calls,
        )
        row = self.dead_letters.action(
            "Put",
            claim.ref.of.pk,
            keys.dead_letter_sk(claim.ref.chunk, claim.gen),
            item=letter,
        )
        mark = open_mark(self.dead_letters, letter, "Put")
        actions = [update, row, mark, self._trail(claim, dead.failure), *also]
        return await self._write(claim, ChunkStatus.DEAD, actions)

    async def cancel(
        self,
        claim: Claim,
        cancelled: Cancelled,
        *,
        resume_at: str | None,
        calls: Calls,
    ) -> bool:
        """Move RUNNING -> CANCELLED, with where it was cut off and what was undone.

        A chunk that was wound back is resumed at `resume_at`; any other where it
        stands.
        """
        assignments = "cancelled = :at"
        values: dict[str, Any] = {"at": cancelled_at(cancelled.stage)}
        if resume_at is not None:
            assignments += ", compensation = :compensation, resume_at = :resume"
            values |= {"compensation": cancelled.compensation, "resume": resume_at}
        update = self._end(
            claim, ChunkStatus.CANCELLED, assignments, values, calls=calls
        )
        return await self._write(claim, ChunkStatus.CANCELLED, [update])

    def _end(
        self,
        claim: Claim,
        status: ChunkStatus,
        assignments: str,
        values: dict[str, Any],
        *,
        calls: Calls,
        remove: str = "",
    ) -> Action:
        return self._update(
            claim,
            f"SET #status = :status, settled_at = :now, {assignments}"
            f" {calls.added} {LET_GO}, due_at{remove}",
            {"status": status, **calls.values, **values},
        )

    def _wait(
        self,
        claim: Claim,
        assignments: str,
        values: dict[str, Any],
        delay: float,
        calls: Calls,
        also_added: str = "",
    ) -> Action:
        again = self.clock() + delay
        return self._update(
            claim,
            f"SET #status = :status, retry_at = :again, due_at = :due, {assignments}"
            f" {calls.added}{also_added} {LET_GO}",
            {
                "status": ChunkStatus.WAITING,
                "again": iso(again),
                "due": iso(again + self.settings.visibility_s),
                **calls.values,
                **values,
            },
        )

    def _update(self, claim: Claim, update: str, values: dict[str, Any]) -> Action:
        now = {"now": iso(self.clock())} if ":now" in update else {}
        return self.table.action(
            "Update",
            claim.ref.pk,
            claim.ref.sk,
            condition=HELD,
            update=update,
            values={**held(claim), **now, **values},
        )

    def _trail(self, claim: Claim, failure: ErrorEnvelope) -> Action:
        days = self.settings.job_retention_days
        return trail_put(self.table, claim, failure, self.clock(), days)

    async def _write(
        self, claim: Claim, status: ChunkStatus, actions: list[Action]
    ) -> bool:
        reply: Written | Refused
        if len(actions) == 1:
            reply = await self.table.update(actions[0], returning="NONE")
        else:
            reply = await self.table.transact(actions)
        if isinstance(reply, Written):
            return True
        item = reply.item or {}
        ours = (
            item.get("fence") == claim.fence and item.get("claim_token") == claim.token
        )
        return ours and item.get("gen") == claim.gen and item.get("status") == status


def counted_as(claim: Claim) -> str:
    """Return the counter that a claim has raised."""
    return "recoveries" if claim.is_recovery else "attempts"
