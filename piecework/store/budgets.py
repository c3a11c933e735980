"""The budgets: a row for each job with a cap, and one for each tenant with one.

Workers write what is spent and their slices; an operator writes a new cap. A write of a
worker names the `seq` that it has read, so no two workers reserve the same dollar.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from piecework.domain import keys
from piecework.domain.budget import Amount, Cap
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.domain.records import read_number
from piecework.domain.schema import SCHEMA, require_known
from piecework.errors import PermanentError
from piecework.resilience.budget import (
    Budget,
    BudgetKey,
    Reply,
    Slice,
    key_of_job,
)
from piecework.store.table import Item, ItemWrite, Refused, Table

#: The first write creates the row. A later one never does: its job may be deleted.
FIRST: Final = "attribute_not_exists(seq)"
#: The budget is still the one that was read.
SEEN: Final = "seq = :seen"
#: The attributes of the cap that an operator has set.
OPERATORS: Final = ("cap_tokens", "cap_nano_usd")


@dataclass(slots=True)
class Budgets:
    """The budgets of a deployment, as one process reads and writes them."""

    table: Table
    clock: Callable[[], float]
    rng: Random

    async def read(self, key: BudgetKey) -> Budget:
        """Read a budget; a new one if it has no row."""
        row = await self.table.get(key.pk, key.sk)
        return Budget() if row is None else read_budget(row)

    async def tenants(self) -> AsyncIterator[tuple[str, Item]]:
        """Yield the row of each tenant that has a daily budget, with its name."""
        rows = self.table.query(keys.BREAKERS_PK, keys.BUDGET_PREFIX)
        async for row in rows:
            if read_budget(row).operator:
                yield row["sk"].removeprefix(keys.BUDGET_PREFIX), row

    async def row_of_tenant(self, tenant: str) -> Item | None:
        """Read the row of a tenant's daily budget; None: it never had one."""
        return await self.table.get(keys.BREAKERS_PK, keys.budget_sk(tenant))

    async def of_job(self, job: Job) -> Budget | None:
        """Read the budget of a job with the cap of its submit; None: it has none.

        The calls of a child spend the budget of the job at the top.
        """
        if not job.budget:
            return None
        return replace(await self.read(key_of_job(job.payer)), requested=job.budget)

    async def write(self, key: BudgetKey, seen: int, budget: Budget) -> Reply:
        """Write the budget that follows the one with `seq` = `seen`."""
        token = f"{self.rng.getrandbits(64):016x}"
        reply = await self.table.update(self._writing(key, seen, budget, token))
        if isinstance(reply, Refused):
            item = reply.item or {}
            # Our own token: the SDK sent the write twice; the first answer was lost.
            return Reply(read_budget(item), ours=item.get("token") == token)
        return Reply(read_budget(reply.item), ours=True)

    def _writing(
        self, key: BudgetKey, seen: int, budget: Budget, token: str
    ) -> ItemWrite:
        facts: dict[str, Any] = {
            "v": SCHEMA,
            "seq": budget.seq,
            "token": token,
            "spent_tokens": budget.spent.tokens,
            "spent_nano_usd": budget.spent.nano_usd,
            "recounts": budget.recounts,
            "recounted_pause": budget.recounted_pause,
            "day": budget.day,
            "slices": {
                worker: {
                    "tokens": each.amount.tokens,
                    "nano_usd": each.amount.nano_usd,
                    "until": each.until,
                    "number": each.number,
                }
                for worker, each in budget.slices.items()
            },
        }
        return self.table.item_write(
            "Update",
            key.pk,
            key.sk,
            condition=SEEN if seen else FIRST,
            update="SET " + ", ".join(f"#{fact} = :{fact}" for fact in facts),
            values={**facts, **({"seen": seen} if seen else {})},
        )

    def unchanged(self, key: BudgetKey, seen: int) -> ItemWrite:
        """Return the check that a budget is still the one with `seq` = `seen`.

        Without it, a job could be paused after an operator has raised its budget.
        """
        return self.table.item_write(
            "ConditionCheck", key.pk, key.sk, condition=SEEN, values={"seen": seen}
        )

    async def set_cap(self, key: BudgetKey, cap: Cap, actor: str) -> Budget:
        """Set a cap that replaces the requested one; return the budget.

        A kind that is None stays as it is; without any, what was set is removed. A
        worker that has read the earlier cap is refused, and reads again. So is a late
        copy of this request.
        """
        token = f"{self.rng.getrandbits(64):016x}"
        while True:
            seen = (await self.read(key)).seq
            reply = await self.table.update(self._setting(key, seen, cap, actor, token))
            item = reply.item or {}
            if not isinstance(reply, Refused) or item.get("token") == token:
                return read_budget(item)

    def _setting(
        self, key: BudgetKey, seen: int, cap: Cap, actor: str, token: str
    ) -> ItemWrite:
        found = zip(OPERATORS, (cap.tokens, cap.nano_usd), strict=True)
        values = {name: value for name, value in found if value is not None}
        assigned = [f"{name} = :{name}" for name in values]
        assigned += ["v = :v", "seq = :next", "#token = :token"]
        assigned += ["set_by = :by", "set_at = :at"]
        removed = "" if values else " REMOVE " + ", ".join(OPERATORS)
        return self.table.item_write(
            "Update",
            key.pk,
            key.sk,
            condition=SEEN if seen else FIRST,
            update=f"SET {', '.join(assigned)}{removed}",
            values={
                **values,
                **({"seen": seen} if seen else {}),
                "v": SCHEMA,
                "next": seen + 1,
                "token": token,
                "by": actor,
                "at": iso(self.clock()),
            },
        )


def read_budget(row: Item) -> Budget:
    """Return the budget of a row; a malformed row counts as nothing but its `seq`.

    Raises:
        SchemaTooNewError: A newer version wrote the row.
    """
    row = require_known(row)
    try:
        return Budget(
            seq=read_number(row, "seq"),
            operator=Cap(
                *(read_number(row, n) if n in row else None for n in OPERATORS)
            ),
            spent=Amount(
                read_number(row, "spent_tokens"), read_number(row, "spent_nano_usd")
            ),
            slices={
                worker: Slice(
                    Amount(read_number(each, "tokens"), read_number(each, "nano_usd")),
                    read_number(each, "until"),
                    read_number(each, "number"),
                )
                for worker, each in row.get("slices", {}).items()
            },
            recounts=read_number(row, "recounts"),
            recounted_pause=str(row.get("recounted_pause", "")),
            day=str(row.get("day", "")),
        )
    except (PermanentError, AttributeError, TypeError):
        return Budget(seq=row["seq"] if type(row.get("seq")) is int else 0)
