"""The limits of the fleet: one row for each dependency, beside its circuit breaker.

A worker reserves starts by writing the quota that follows the one it has read. So only
one of two workers that read the same row gets the next starts. What an operator sets
has attributes of its own, which no reservation writes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from piecework.domain import keys
from piecework.domain.moments import iso
from piecework.domain.pause import Pause, PauseCode
from piecework.domain.records import read_number, read_text
from piecework.domain.schema import SCHEMA, require_known
from piecework.errors import PermanentError, UsageError
from piecework.resilience.limits import Limits, Quota, Reply
from piecework.resilience.pace import Pace
from piecework.resilience.shares import Share
from piecework.store.fleet_events import ENVIRONMENT, fleet_event
from piecework.store.table import Item, Refused, Table

#: The quota is still the one that the worker has read. The first write creates the row.
FIRST_OR_SEEN: Final = "attribute_not_exists(seq) OR seq = :seen"
#: The row was not written by a newer version.
KNOWN_VERSION: Final = "attribute_not_exists(v) OR v <= :v"
#: The limits of a row: those that the code declares and those that an operator has set.
NAMES: Final = (
    "requests_per_second",
    "requests_per_minute",
    "tokens_per_minute",
    "concurrent",
)
#: The attributes of the pause of a dependency.
PAUSE: Final = ("pause_code", "pause_message", "paused_by", "paused_at")
OPERATORS: Final = tuple(f"operator_{name}" for name in NAMES)


@dataclass(slots=True)
class Quotas:
    """The limits of an environment, as one process writes them."""

    table: Table
    writer: str
    clock: Callable[[], float]
    rng: Random

    async def read(self, name: str) -> Quota:
        """Read the quota of a dependency; a new one if it has no row."""
        row = await self._row(name)
        return Quota() if row is None else read_quota(row)

    async def write(self, name: str, seen: int, quota: Quota) -> Reply:
        """Write the quota that follows the one with `seq` = `seen`."""
        token = f"{self.rng.getrandbits(64):016x}"
        facts: dict[str, Any] = {
            "v": SCHEMA,
            "seq": quota.seq,
            "token": token,
            "reserved_by": self.writer,
            "requests_next": quota.requests_next,
            "tokens_next": quota.tokens_next,
            "refused_rate": quota.pace.refused_rate,
            "refused_at": quota.pace.refused_at,
            "paused_until": quota.pace.paused_until,
            "doubles": int(quota.pace.doubles),
            "shares": stored_shares(quota.shares),
            "turns": stored_shares(quota.turns),
        }
        declared = {name: getattr(quota.declared, name) for name in NAMES}
        facts |= {name: value or 0 for name, value in declared.items()}
        write = self.table.item_write(
            "Update",
            keys.BREAKERS_PK,
            keys.limits_sk(name),
            condition=FIRST_OR_SEEN,
            update="SET " + ", ".join(f"#{fact} = :{fact}" for fact in facts),
            values={**facts, "seen": seen},
        )
        reply = await self.table.update(write)
        if isinstance(reply, Refused):
            item = reply.item or {}
            # Our own token: the SDK sent the write twice; the first answer was lost.
            return Reply(read_quota(item), ours=item.get("token") == token)
        return Reply(read_quota(reply.item), ours=True)

    async def set_limits(self, name: str, limits: Limits, reason: str = "") -> Item:
        """Set limits that replace the declared ones; return the row.

        A limit that is None stays as it is. Without any, all that an operator has set
        are removed.
        """
        values: dict[str, Any] = {
            operators: getattr(limits, each)
            for each, operators in zip(NAMES, OPERATORS, strict=True)
            if getattr(limits, each) is not None
        }
        assigned = [f"{each} = :{each}" for each in values]
        assigned += ["v = :v", "set_by = :by", "set_at = :at"]
        removed = "" if values else " REMOVE " + ", ".join(OPERATORS)
        update = "SET " + ", ".join(assigned) + removed
        told = {each.removeprefix("operator_"): value for each, value in values.items()}
        values |= {"by": self.writer, "at": iso(self.clock())}
        return await self._act(name, update, values, "limits set", reason, told)

    async def pause(self, name: str, reason: str = "") -> Item:
        """Pause a dependency; return the row.

        A pause that is repeated replaces the reason.
        """
        facts = (PauseCode.OPERATOR, reason, self.writer, iso(self.clock()))
        values = dict(zip(PAUSE, facts, strict=True))
        update = "SET v = :v, " + ", ".join(f"{each} = :{each}" for each in PAUSE)
        return await self._act(name, update, values, "dependency paused", reason)

    async def resume(self, name: str, reason: str = "") -> Item:
        """End the pause of a dependency; return the row."""
        update = "REMOVE " + ", ".join(PAUSE)
        return await self._act(name, update, {}, "dependency resumed", reason)

    async def _act(
        self,
        name: str,
        update: str,
        values: Mapping[str, Any],
        event: str,
        reason: str,
        facts: Mapping[str, Any] | None = None,
    ) -> Item:
        """Write an operator's change with its event; return the row.

        Raises:
            SchemaTooNewError: A newer version wrote the row.
        """
        write = self.table.item_write(
            "Update",
            keys.BREAKERS_PK,
            keys.limits_sk(name),
            condition=KNOWN_VERSION,
            update=update,
            values={**values, "v": SCHEMA},
        )
        told = {"dependency": name, "actor": self.writer, "reason": reason}
        told |= facts or {}
        put = fleet_event(self.table, ENVIRONMENT, event, self.clock(), told)
        reply = await self.table.transact([write, put])
        if isinstance(reply, Refused):
            return require_known(reply.item or {})
        return await self._row(name) or {}

    async def _row(self, name: str) -> Item | None:
        return await self.table.get(keys.BREAKERS_PK, keys.limits_sk(name))

    async def rows(self) -> AsyncIterator[tuple[str, Item]]:
        """Yield the row of each dependency, with its name."""
        rows = self.table.query(keys.BREAKERS_PK, keys.LIMITS_PREFIX)
        async for row in rows:
            yield row["sk"].removeprefix(keys.LIMITS_PREFIX), row


def read_pause(row: Item, what: str = "A limit") -> Pause | None:
    """Return the pause of a row; None: what it belongs to is not paused."""
    if PAUSE[0] not in row:
        return None
    return Pause(*(read_text(row, each, what) for each in PAUSE))


def read_limits(row: Item, prefix: str = "") -> Limits:
    """Return the limits of a row whose attributes have a prefix; 0: no limit."""
    return Limits(**{name: read_number(row, prefix + name) or None for name in NAMES})


def stored_shares(shares: Mapping[str, Share]) -> Mapping[str, Any]:
    """Return the shares of the workers as a row has them."""
    return {
        worker: {"calls": each.calls, "wants": each.wants, "until": each.until}
        for worker, each in shares.items()
    }


def read_shares(stored: Mapping[str, Any]) -> Mapping[str, Share]:
    """Return the shares of the workers from a row."""
    return {
        worker: Share(*(read_number(each, n) for n in ("calls", "wants", "until")))
        for worker, each in stored.items()
    }


def read_quota(row: Item) -> Quota:
    """Return the quota of a row; a malformed one counts as new.

    Raises:
        SchemaTooNewError: A newer version wrote the row.
    """
    row = require_known(row)
    try:
        pause = read_pause(row)
        return Quota(
            seq=read_number(row, "seq"),
            declared=read_limits(row),
            operator=read_limits(row, "operator_"),
            requests_next=read_number(row, "requests_next"),
            tokens_next=read_number(row, "tokens_next"),
            pace=Pace(
                read_number(row, "refused_rate"),
                read_number(row, "refused_at"),
                read_number(row, "paused_until"),
                doubles=bool(read_number(row, "doubles")),
            ),
            shares=read_shares(row.get("shares", {})),
            turns=read_shares(row.get("turns", {})),
            paused="" if pause is None else f"{pause.why} (by {pause.actor})",
        )
    except (PermanentError, UsageError, AttributeError, TypeError):
        return Quota(seq=row["seq"] if type(row.get("seq")) is int else 0)
