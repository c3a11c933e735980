"""The effects of a chunk, written ahead: INTENT before, DONE after.

    (none) -> INTENT -> DONE -> COMPENSATED -> INTENT ...
                 |-> REFUSED -> INTENT       it plainly did not happen; or DONE
                 |-> UNKNOWN                 a person has to look

An intent is fenced by the claim: a worker that lost the chunk begins no effect. So is
a refusal: the next holder may be carrying out the very same effect. That it was done,
or is in doubt, is not: it has happened, and whoever says so tells the truth; of that
life of the chunk, for in the next one the effect is begun anew, with another key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from piecework import keys
from piecework.claim import Claim
from piecework.dependency import Effect
from piecework.model import iso, moment
from piecework.objects import Objects
from piecework.ports import AlreadyDone, ClaimLostError, Proceed, Unknown
from piecework.store.claims import OWNED, ownership_values
from piecework.store.table import Action, Item, Refused, Table, Written

INTENT, DONE, COMPENSATED = "INTENT", "DONE", "COMPENSATED"
REFUSED, UNKNOWN = "REFUSED", "UNKNOWN"
#: The states of an effect that stands, or may stand.
MAY_HAVE_HAPPENED = frozenset({INTENT, DONE, UNKNOWN})

#: An effect may be begun if it never was, or if it is known not to stand.
MAY_START = "attribute_not_exists(pk) OR #state IN (:compensated, :refused)"
#: Only an effect under way can come to something.
IN_PROGRESS = "#state IN (:intent, :unknown)"
#: What was done in a life of the chunk, and undone, says nothing of the next one's.
SAME_GEN = "gen = :gen"
OWN_IN_PROGRESS = f"{IN_PROGRESS} AND {SAME_GEN}"
#: That it was done is the last word, also after somebody else was refused.
NOT_ENDED = f"#state IN (:intent, :unknown, :refused) AND {SAME_GEN}"


@dataclass(slots=True)
class EffectLedger:
    """The ledger of one claim."""

    table: Table
    objects: Objects
    claim: Claim
    clock: Callable[[], float]
    _rows: dict[str, Item] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        """What the keys of the job's objects begin with."""
        return keys.object_prefix(self.claim.ref.tenant, self.claim.ref.job)

    def load(self, rows: Iterable[Item]) -> None:
        """Take over what earlier claims wrote."""
        self._rows.update({row["effect_key"]: row for row in rows})

    def stages_with_effects(self) -> set[str]:
        """Return the stages of which an effect stands, or may stand."""
        return {
            str(row["stage"])
            for key, row in self._rows.items()
            if self.may_have_happened(key)
        }

    def may_have_happened(self, key: str) -> bool:
        """Say whether an effect stands, or may stand."""
        row = self._rows.get(key)
        return row is not None and row["state"] in MAY_HAVE_HAPPENED

    @property
    def under_way_s(self) -> float:
        """Seconds that what earlier claims left under way may take, at most."""
        rows = self._rows.values()
        return max(
            (row.get("max_duration_s", 0) for row in rows if row["state"] == INTENT),
            default=0.0,
        )

    async def begin(
        self, key: str, stage: str, effect: Effect, max_duration_s: float
    ) -> Proceed | AlreadyDone | Unknown:
        """Write the intent of an effect, or learn what became of an earlier one.

        `max_duration_s`: seconds that one attempt may take; stored for later claims.

        Raises:
            ClaimLostError: The chunk is somebody else's by now.
        """
        row = self._rows.get(key)
        match row["state"] if row else None:
            case "DONE":
                return AlreadyDone(await self.objects.fetch(row or {}, self.prefix))
            case "INTENT" | "UNKNOWN" if row:
                if effect is Effect.NON_IDEMPOTENT:
                    await self.mark_unknown(key)
                    return Unknown()
                seconds = self.clock() - moment(row["started_at"])
                return Proceed(row["gen"], in_doubt=True, seconds=seconds)
            case _:
                return await self._intend(key, stage, effect, max_duration_s)

    async def _intend(
        self, key: str, stage: str, effect: Effect, max_duration_s: float
    ) -> Proceed:
        ref, epoch = self.claim.ref, self.claim.gen
        row = {
            "effect_key": key,
            "state": INTENT,
            "effect": effect,
            "stage": stage,
            "gen": epoch,
            "started_at": iso(self.clock()),
            "fence": self.claim.fence,
            "max_duration_s": math.ceil(max_duration_s),
        }
        put = self.table.action(
            "Put",
            ref.pk,
            keys.effect_sk(ref.chunk, key),
            condition=MAY_START,
            values={"compensated": COMPENSATED, "refused": REFUSED},
            item=row,
        )
        reply = await self.table.transact([self._check(), put])
        if isinstance(reply, Refused):
            raise ClaimLostError
        self._rows[key] = row
        return Proceed(epoch)

    async def finish(self, key: str, value: str) -> None:
        """Record that an effect was carried out, and its answer."""
        stowed = await self.objects.stow(value, f"{self.prefix}/effects/{key}")
        await self._come_to(key, DONE, stowed, NOT_ENDED, refused=REFUSED)

    async def mark_refused(self, key: str) -> None:
        """Record that an effect was plainly refused: it does not stand.

        Of a claim that was lost the row stays an intent: only its next holder can tell.
        """
        action, facts = self._ending(key, REFUSED, {})
        reply = await self.table.transact([self._check(), action])
        if isinstance(reply, Written):
            self._rows[key] = {**self._rows[key], **facts}

    async def mark_unknown(self, key: str) -> None:
        """Record that nobody can tell whether an effect stands."""
        await self._come_to(key, UNKNOWN, {})

    async def _come_to(
        self,
        key: str,
        state: str,
        facts: dict[str, Any],
        condition: str = OWN_IN_PROGRESS,
        **compared: str,
    ) -> None:
        action, facts = self._ending(key, state, facts, condition, **compared)
        await self.table.update(action, returning="NONE")
        self._rows[key] = {**self._rows[key], **facts}

    def _ending(
        self,
        key: str,
        state: str,
        facts: dict[str, Any],
        condition: str = OWN_IN_PROGRESS,
        **compared: str,
    ) -> tuple[Action, dict[str, Any]]:
        """Return the write of what an effect came to, and what it puts into the row."""
        ref = self.claim.ref
        facts = {"state": state, "ended_at": iso(self.clock()), **facts}
        # `value` is a reserved word of DynamoDB's; attribute names are ours to choose.
        assignments = ", ".join(f"#{name} = :{name}" for name in facts)
        action = self.table.action(
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
        return action, facts

    def _check(self) -> Action:
        """Return the look at the chunk that refuses a write of a lost claim."""
        ref = self.claim.ref
        return self.table.action(
            "ConditionCheck",
            ref.pk,
            ref.sk,
            condition=OWNED,
            values=ownership_values(self.claim),
        )

    def undoing(self, stage: str) -> list[Action]:
        """Return the writes that mark a stage's effects as undone."""
        ref = self.claim.ref
        return [
            self.table.action(
                "Update",
                ref.pk,
                keys.effect_sk(ref.chunk, key),
                condition="attribute_exists(pk)",
                update="SET #state = :compensated",
                values={"compensated": COMPENSATED},
            )
            for key, row in self._rows.items()
            if row["stage"] == stage
        ]
