"""The write-ahead ledger of a chunk's effects: INTENT before a call, DONE after it.

    (none) -> INTENT -> DONE -> COMPENSATED -> INTENT ...
                 |-> REFUSED -> INTENT       it was refused, or not sent; or DONE
                 |-> UNKNOWN                 an operator has to resolve it

An intent is fenced by the claim: a worker that lost the chunk starts no effect. A
refusal is fenced too, because the next owner may be executing the same effect. The
first intent of the pivot also needs a chunk without a cancel request. This one write
decides whether a cancel stops the chunk at its pivot. DONE and UNKNOWN are not fenced:
they report what has happened, which stays true if the claim is lost. They compare the
generation: the next one starts the effect with another key.

The writes are in one file, because each one's condition names the states of others.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from piecework.aws.objects import Objects
from piecework.domain import keys
from piecework.domain.claim import Claim
from piecework.domain.effect import Effect
from piecework.domain.happened import EffectEnd, KnownEffect
from piecework.domain.moments import iso, moment
from piecework.domain.protocols import (
    AlreadyDone,
    Called,
    CancelRequest,
    CancelRequestedError,
    ClaimLostError,
    Proceed,
    Unknown,
)
from piecework.domain.rows import EffectRow, Row
from piecework.errors import PermanentError, StoreError
from piecework.store.claims import OWNED, ownership_values
from piecework.store.table import Item, ItemWrite, Refused, Table, Written

if TYPE_CHECKING:
    from piecework.calls.usage import ClaimUsage

INTENT, DONE, COMPENSATED = "INTENT", "DONE", "COMPENSATED"
REFUSED, UNKNOWN = "REFUSED", "UNKNOWN"
#: The states of an effect that has happened or may have happened.
MAY_HAVE_HAPPENED = frozenset({INTENT, DONE, UNKNOWN})

#: The first intent of a pivot: a cancel that came before it stops the chunk.
OWNED_UNCANCELLED = f"{OWNED} AND attribute_not_exists(cancel_requested_at)"
#: An effect may start if it never started, or if it certainly did not happen.
MAY_START = "attribute_not_exists(pk) OR #state IN (:compensated, :refused)"
#: Only an effect in progress can end.
IN_PROGRESS = "#state IN (:intent, :unknown)"
#: An effect of an earlier generation tells nothing about this generation's effect.
SAME_GEN = "gen = :gen"
OWN_IN_PROGRESS = f"{IN_PROGRESS} AND {SAME_GEN}"
#: DONE is final, and it also replaces the refusal of another claim.
NOT_ENDED = f"#state IN (:intent, :unknown, :refused) AND {SAME_GEN}"
#: No claim has counted the call of the effect.
DONE_UNCOUNTED = "#state = :done AND attribute_not_exists(paid_fence)"
#: The most seconds between two tries to write the end of an effect during an outage.
#: They double each time, up to the longest. A lease that is not renewed ends before.
RETRY_S, LONGEST_RETRY_S = 1.0, 32.0
R = TypeVar("R")


def new_usage() -> ClaimUsage:
    """Return a usage of no call."""
    from piecework.calls.usage import ClaimUsage  # pydantic, which no reader needs

    return ClaimUsage()


@dataclass(slots=True)
class EffectLedger:
    """The ledger of one claim.

    Attributes:
        pivot: The name of the pivot stage; empty: the pipeline has none.
        cancel: The cancel request on the chunk, if it came before the pivot's intent.
        cancel_of_lease: Returns the cancel request that the lease has seen, or None.
        usage: What its calls used: the row of an effect keeps that of its call.
        code_version: That of the claim; empty: it is not known.
        by_others: The effects of other versions, by key.
    """

    table: Table
    objects: Objects
    claim: Claim
    clock: Callable[[], float]
    pivot: str = ""
    cancel: CancelRequest | None = None
    cancel_of_lease: Callable[[], CancelRequest | None] = lambda: None
    usage: ClaimUsage = field(default_factory=new_usage)
    code_version: str = ""
    by_others: frozenset[str] = frozenset()
    _rows: dict[str, Item] = field(default_factory=dict)
    #: The answers of the effects whose end is not written yet, by key.
    _unwritten: dict[str, str] = field(default_factory=dict)
    #: Two effects of a pivot ask one after the other: the first intent decides.
    _first_at_pivot: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def prefix(self) -> str:
        """The prefix of the job's object keys."""
        return keys.object_prefix(self.claim.ref.tenant, self.claim.ref.job)

    def load(self, rows: Iterable[EffectRow]) -> None:
        """Load the rows that earlier claims wrote."""
        self._rows.update({row.key: dict(row.item) for row in rows})

    def stages_with_effects(self) -> set[str]:
        """Return the stages with an effect that has or may have happened."""
        return {
            str(row["stage"])
            for key, row in self._rows.items()
            if self.may_have_happened(key)
        }

    def may_have_happened(self, key: str) -> bool:
        """Return whether an effect has happened or may have happened."""
        row = self._rows.get(key)
        return row is not None and row["state"] in MAY_HAVE_HAPPENED

    async def known_effects(self, stage: str) -> list[KnownEffect]:
        """Return the effects of all stages; those of one stage have their answers.

        An answer that cannot be read is left out: only who asks for it needs it.

        Raises:
            StoreError: An answer could not be read now.
        """
        return [
            KnownEffect(
                str(row["stage"]),
                str(row.get("called", "")),
                str(row.get("arguments", "")),
                self._end_of(key),
                await self._answer_of(key) if row["stage"] == stage else None,
                key in self.by_others,
            )
            for key, row in self._rows.items()
        ]

    def _end_of(self, key: str) -> EffectEnd:
        if not self.may_have_happened(key):
            return EffectEnd.NOT_HAPPENED
        known = key in self._unwritten or self._rows[key]["state"] == DONE
        return EffectEnd.HAPPENED if known else EffectEnd.IN_DOUBT

    async def _answer_of(self, key: str) -> str | None:
        if key in self._unwritten or self._rows[key]["state"] != DONE:
            return self._unwritten.get(key)
        with suppress(PermanentError):
            return await self.objects.get_value(Row(self._rows[key]), self.prefix)
        return None

    def began_earlier(self, key: str) -> bool:
        """Return whether an earlier claim wrote the intent of an effect."""
        row = self._rows.get(key)
        return row is not None and row["fence"] != self.claim.fence

    @property
    def leaves_doubt(self) -> bool:
        """Return whether a call of this claim is in flight that must not be cut off."""
        return any(
            row["state"] == INTENT
            and row["effect"] == Effect.NON_IDEMPOTENT
            and row["fence"] == self.claim.fence
            and key not in self._unwritten
            for key, row in self._rows.items()
        )

    @property
    def in_doubt(self) -> int:
        """How many effects are in progress, or unknown.

        The end of a claim asks for it, also of one that could not read a damaged row.
        Such a row is not counted: the chunk has an error of its own for it.
        """
        in_progress = [
            key
            for key, row in self._rows.items()
            if any(row.get("state") == state for state in (INTENT, UNKNOWN))
        ]
        return sum(key not in self._unwritten for key in in_progress)

    @property
    def pivot_is_untouched(self) -> bool:
        """Return whether no effect of the pivot has an intent, or may get one now."""
        asks = self._first_at_pivot.locked()
        return not asks and self.pivot not in self.stages_with_effects()

    @property
    def pivot_was_refused(self) -> bool:
        """Return whether effects of the pivot started, and certainly did not happen."""
        tried = any(row["stage"] == self.pivot for row in self._rows.values())
        return tried and self.pivot_is_untouched

    @property
    def in_flight_s(self) -> float:
        """Maximum seconds that effects of earlier claims may still be in flight."""
        rows = self._rows.values()
        return max(
            (
                row.get("max_duration_s", 0)
                for row in rows
                if row["state"] in {INTENT, UNKNOWN}
            ),
            default=0.0,
        )

    async def begin(
        self,
        key: str,
        stage: str,
        effect: Effect,
        max_duration_s: float,
        called: Called | None = None,
    ) -> Proceed | AlreadyDone | Unknown:
        """Write the intent of an effect, or return the state of an earlier one.

        `max_duration_s`: seconds that one attempt may take; stored for later claims.
        `called`: what is called; stored for `ctx.happened`.

        Raises:
            ClaimLostError: Another claim owns the chunk now.
            CancelRequestedError: The job was cancelled before the first intent of the
                pivot.
        """
        if (answer := self._unwritten.get(key)) is not None:
            await self.finish(key, answer)
            return AlreadyDone(answer)
        row = self._rows.get(key)
        match row["state"] if row else None:
            case "DONE" if row:
                answer = await self.objects.get_value(Row(row), self.prefix)
                by_operator = bool(EffectRow(row).resolved_at)
                is_counted = not by_operator or "paid_fence" in row
                return AlreadyDone(answer, is_counted)
            case "INTENT" | "UNKNOWN" if row:
                kinds = {str(effect), str(row.get("effect", effect))}
                if kinds & {Effect.NON_IDEMPOTENT, Effect.PURE}:
                    return Unknown()
                seconds = self.clock() - moment(row["started_at"])
                return Proceed(row["gen"], seconds, is_counted="paid_fence" in row)
            case _ if stage == self.pivot:
                async with self._first_at_pivot:
                    return await self._intend(
                        key, stage, effect, max_duration_s, called
                    )
            case _:
                return await self._intend(key, stage, effect, max_duration_s, called)

    async def _intend(
        self,
        key: str,
        stage: str,
        effect: Effect,
        max_duration_s: float,
        called: Called | None,
    ) -> Proceed:
        ref, gen = self.claim.ref, self.claim.gen
        is_first = stage == self.pivot and stage not in self.stages_with_effects()
        if is_first and (self.cancel or self.cancel_of_lease()):
            raise CancelRequestedError
        row = {
            "effect_key": key,
            "state": INTENT,
            "effect": effect,
            "stage": stage,
            "gen": gen,
            "started_at": iso(self.clock()),
            "fence": self.claim.fence,
            "max_duration_s": math.ceil(max_duration_s),
            **(
                {
                    "called": called.function,
                    "arguments": called.arguments,
                    "dependency": called.dependency or None,
                    "code_version": self.code_version or None,
                }
                if called
                else {}
            ),
        }
        put = self.table.item_write(
            "Put",
            ref.pk,
            keys.effect_sk(ref.chunk, key),
            condition=MAY_START,
            values={"compensated": COMPENSATED, "refused": REFUSED},
            item={**row, "expires_at": self.claim.expires_at},
        )
        check = self._check(OWNED_UNCANCELLED if is_first else OWNED)
        earlier = self._rows.get(key)
        self._rows[key] = row  # a write without an answer may have been applied
        reply = await self.table.transact([check, put])
        if isinstance(reply, Refused):
            self._restore(key, earlier)
            item = reply.refused.get(0) or {}
            if is_first and item.get("claim_token") == self.claim.token:
                self.cancel = CancelRequest.read(item)
                raise CancelRequestedError
            raise ClaimLostError
        return Proceed(gen)

    def _restore(self, key: str, earlier: Item | None) -> None:
        if earlier is None:
            del self._rows[key]
        else:
            self._rows[key] = earlier

    def hold(self, key: str, value: str) -> None:
        """Remember an answer until it is recorded; the claim records it at its end."""
        self._unwritten[key] = value

    async def finish(self, key: str, value: str) -> None:
        """Record that an effect happened, with its answer.

        If that fails or is interrupted, `finish_rest` does it before the claim ends.
        """
        self.hold(key, value)
        await self._insist(lambda: self._finish(key, value))

    async def finish_rest(self, *, patient: bool) -> None:
        """Record the effects that were answered, and whose end is not written yet.

        Without `patient`, an answer that cannot be stored is given up. Its row says
        that this claim has counted the call. A later claim finds the answer by its
        lookup, and must not count it again.

        Raises:
            StoreError: A later try may succeed.
        """
        for key, value in list(self._unwritten.items()):
            try:
                await self._finish(key, value)
            except StoreError as error:
                if patient and error.is_outage:
                    raise
                progress = {"intent": INTENT, "unknown": UNKNOWN}
                gen = self._rows[key]["gen"]
                await self._note_counted(key, OWN_IN_PROGRESS, **progress, gen=gen)

    async def mark_counted(self, key: str) -> None:
        """Record that the call of an effect that an operator resolved is counted."""
        await self._note_counted(key, DONE_UNCOUNTED, done=DONE)

    async def _finish(self, key: str, value: str) -> None:
        ref = self.claim.ref
        place = keys.effect_value_key(ref.tenant, ref.job, key)
        stored = await self.objects.put_value(value, place)
        facts = {**stored, **self._paid(key)}
        reply = await self._record_end(key, DONE, facts, NOT_ENDED, refused=REFUSED)
        if isinstance(reply, Refused):
            self._leave_count(key, reply.item or {})
        # A drained effect and the end of its claim may both record it.
        self._unwritten.pop(key, None)

    def _leave_count(self, key: str, row: Item) -> None:
        """Count a call no more if the row says that a lost claim has counted it.

        Its write may be applied after this claim has read the row.
        """
        if row.get("paid_fence") not in {None, self.claim.fence}:
            counted = self.usage.effects.pop(key, None)
            if counted is not None:
                self.usage.whole = self.usage.whole.less(counted)

    async def _note_counted(self, key: str, condition: str, **compared: Any) -> None:
        ref, paid = self.claim.ref, self._paid(key)
        write = self.table.item_write(
            "Update",
            ref.pk,
            keys.effect_sk(ref.chunk, key),
            condition=condition,
            update="SET " + ", ".join(f"{name} = :{name}" for name in paid),
            values={**compared, **paid},
        )
        if paid:
            await self.table.update(write, returning="NONE")
            self._rows[key] = {**self._rows[key], **paid}

    def _paid(self, key: str) -> dict[str, Any]:
        """Return what the call used, if this claim has counted it."""
        paid = self.usage.effects.get(key)
        if not paid:
            return {}
        return {"call_usage": paid.item, "paid_fence": self.claim.fence}

    async def mark_refused(self, key: str, *, sent: bool = True) -> None:
        """Record that an effect certainly did not happen: refused, or never sent.

        After a lost claim the row stays an intent: only the next owner can decide.
        """
        unsent = {} if sent else {"not_sent": True}
        write, facts = self._ending(key, REFUSED, unsent)
        writes = [self._check(), write]
        reply = await self._insist(lambda: self.table.transact(writes))
        # A write without an answer may have been applied: then the next one is refused.
        own = isinstance(reply, Written) or (
            0 not in reply.refused
            and (reply.refused.get(1) or {}).get("state") == REFUSED
        )
        if own:
            self._rows[key] = {**self._rows[key], **facts}

    async def _insist(self, write: Callable[[], Awaitable[R]]) -> R:
        """Write the end of an effect; repeat that during an outage.

        Only this claim knows the end: for the next one the effect would be in doubt.
        """
        most = RETRY_S
        while True:
            try:
                return await write()
            except StoreError as error:
                if not error.is_outage or most > LONGEST_RETRY_S:
                    raise
            await asyncio.sleep(self.table.rng.uniform(most / 2, most))
            most *= 2

    async def mark_unknown(self, key: str, schema: str) -> None:
        """Record that it is unknown whether an effect happened.

        `schema`: the JSON schema of its answer, for an operator; empty: unknown.
        """
        await self._record_end(
            key, UNKNOWN, {"answer_schema": schema} if schema else {}
        )

    async def _record_end(
        self,
        key: str,
        state: str,
        facts: dict[str, Any],
        condition: str = OWN_IN_PROGRESS,
        **compared: str,
    ) -> Written | Refused:
        write, facts = self._ending(key, state, facts, condition, **compared)
        reply = await self.table.update(write, returning="NONE")
        self._rows[key] = {**self._rows[key], **facts}
        return reply

    def _ending(
        self,
        key: str,
        state: str,
        facts: dict[str, Any],
        condition: str = OWN_IN_PROGRESS,
        **compared: str,
    ) -> tuple[ItemWrite, dict[str, Any]]:
        """Return the write that ends an effect, and the attributes that it sets."""
        ref = self.claim.ref
        facts = {"state": state, "ended_at": iso(self.clock()), **facts}
        # Every name gets a placeholder, because `value` and `state` are reserved words.
        assignments = ", ".join(f"#{name} = :{name}" for name in facts)
        write = self.table.item_write(
            "Update",
            ref.pk,
            keys.effect_sk(ref.chunk, key),
            condition=condition,
            update=f"SET {assignments}",
            values={
                "intent": INTENT,
                "unknown": UNKNOWN,
                "gen": self._rows[key]["gen"],
                **compared,
                **facts,
            },
        )
        return write, facts

    def _check(self, condition: str = OWNED) -> ItemWrite:
        """Return the check that refuses the write if the claim is lost."""
        ref = self.claim.ref
        return self.table.item_write(
            "ConditionCheck",
            ref.pk,
            ref.sk,
            condition=condition,
            values=ownership_values(self.claim),
        )

    def compensation_updates(self, stage: str) -> list[ItemWrite]:
        """Return the writes that mark a stage's effects as compensated.

        A refused effect stays refused: there was nothing to compensate.
        """
        ref = self.claim.ref
        return [
            self.table.item_write(
                "Update",
                ref.pk,
                keys.effect_sk(ref.chunk, key),
                condition="attribute_exists(pk)",
                update="SET #state = :compensated",
                values={"compensated": COMPENSATED},
            )
            for key, row in self._rows.items()
            if row["stage"] == stage and row["state"] in MAY_HAVE_HAPPENED
        ]
