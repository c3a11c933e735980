"""The circuit breakers of the fleet: one row for each dependency.

Each change of state is the next generation of the row. A write names the generation on
which it was decided, so of two workers only one changes the state. Workers read the
rows at an interval, not before each call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from piecework.calls.fleet_breaker import BreakerSnapshot
from piecework.domain import keys
from piecework.domain.budget import Cap
from piecework.domain.moments import iso, moment
from piecework.domain.records import read_int, read_optional_text
from piecework.domain.schema import SCHEMA, is_newer, require_known
from piecework.errors import PermanentError
from piecework.resilience.breaker import BreakerPhase, Heard
from piecework.resilience.limits import Quota
from piecework.store.budgets import read_budget
from piecework.store.fleet_events import ENVIRONMENT, fleet_event
from piecework.store.limits import read_quota
from piecework.store.table import Item, Refused, Table

#: The state is still the one that the worker read. The first change creates the row.
FIRST_OR_SEEN = "attribute_not_exists(pk) OR gen = :seen"
SEEN = "gen = :seen"
#: One probe at a time. The probe of a dead worker expires at `probe_until`.
NOT_PROBED = "(attribute_not_exists(probe_until) OR probe_until < :now)"
OUR_PROBE = "probe_token = :token"
#: No other worker has heard of another chunk since this one read the row.
FIRST_OR_SAME_HEARD = (
    "(attribute_not_exists(heard_seq) AND :seq = :zero OR heard_seq = :seq)"
)
NO_PROBE = "REMOVE probe_token, probe_until, probed_by"


@dataclass(slots=True)
class Breakers:
    """The circuit breakers of an environment, as one worker writes them.

    Attributes:
        limits_read: Receives the quota of each dependency. It is read with the
            breakers, so that a worker learns of new limits without another request.
        budget_read: Receives the daily budget of each tenant, likewise.
    """

    table: Table
    worker: str
    clock: Callable[[], float]
    limits_read: Callable[[str, Quota], None] = lambda *_: None
    budget_read: Callable[[str, Cap], None] = lambda *_: None

    async def read_all(self) -> Mapping[str, BreakerSnapshot]:
        """Read every breaker in one request, strongly consistent.

        The writes do not need consistency, because each names its generation. But the
        fleet stops calling a failing dependency sooner, at half a read unit a second.
        """
        rows = self.table.query(keys.BREAKERS_PK)
        found = {}
        async for row in rows:
            name = row["sk"].removeprefix(keys.LIMITS_PREFIX)
            tenant = row["sk"].removeprefix(keys.BUDGET_PREFIX)
            if tenant != row["sk"]:
                self.budget_read(tenant, read_budget(row).operator)
            elif name != row["sk"]:
                self.limits_read(name, read_quota(row))
            else:
                found[name] = snapshot(row)
        return {name: state for name, state in found.items() if state is not None}

    async def open(
        self, name: str, gen: int, until: float, code: str
    ) -> BreakerSnapshot | None:
        """Move closed -> open."""
        return await self._write(
            name,
            FIRST_OR_SEEN,
            "SET breaker_state = :state, gen = :next, v = :v, open_until = :until,"
            f" opened_at = :now, opened_by = :worker, error_code = :code {NO_PROBE}",
            gen,
            {
                "v": SCHEMA,
                "state": BreakerPhase.OPEN,
                "until": iso(until),
                "code": code,
            },
            "breaker opened",
        )

    async def take_probe(
        self, name: str, gen: int, token: str, until: float
    ) -> BreakerSnapshot | None:
        """Take the one probe of an open breaker; it expires at `until`."""
        write = self.table.item_write(
            "Update",
            keys.BREAKERS_PK,
            name,
            condition=f"{SEEN} AND {NOT_PROBED}",
            update="SET probe_token = :token, probe_until = :until,"
            " probed_by = :worker",
            values={
                "seen": gen,
                "now": iso(self.clock()),
                "token": token,
                "until": iso(until),
                "worker": self.worker,
            },
        )
        reply = await self.table.update(write)
        # A refusal with our own token: the SDK sent the write twice. The first copy was
        # applied, and its answer was lost.
        if (
            isinstance(reply, Refused)
            and (reply.item or {}).get("probe_token") != token
        ):
            return snapshot(reply.item)
        return None

    async def release_probe(
        self, name: str, gen: int, token: str
    ) -> BreakerSnapshot | None:
        """Give the probe back: its call did not show whether the dependency works."""
        write = self.table.item_write(
            "Update",
            keys.BREAKERS_PK,
            name,
            condition=f"{SEEN} AND {OUR_PROBE}",
            update=NO_PROBE,
            values={"seen": gen, "token": token},
        )
        reply = await self.table.update(write, returning="NONE")
        return snapshot(reply.item) if isinstance(reply, Refused) else None

    async def reopen(
        self, name: str, gen: int, token: str, until: float, failed_probes: int
    ) -> BreakerSnapshot | None:
        """Move open -> open for longer: the probe failed."""
        return await self._write(
            name,
            f"{SEEN} AND {OUR_PROBE}",
            "SET gen = :next, open_until = :until, failed_probes = :failed,"
            f" opened_at = :now, opened_by = :worker {NO_PROBE}",
            gen,
            {"until": iso(until), "failed": failed_probes, "token": token},
        )

    async def close(self, name: str, gen: int, token: str) -> BreakerSnapshot | None:
        """Move open -> closed: the probe was answered."""
        return await self._write(
            name,
            f"{SEEN} AND {OUR_PROBE}",
            "SET breaker_state = :state, gen = :next, closed_at = :now,"
            f" closed_by = :worker {NO_PROBE}, open_until, failed_probes",
            gen,
            {"state": BreakerPhase.CLOSED, "token": token},
            "breaker closed",
        )

    async def set_heard(
        self, name: str, gen: int, seq: int, heard: Heard
    ) -> BreakerSnapshot | None:
        """Replace the failing and the answered chunks; the first ones make the row."""
        write = self.table.item_write(
            "Update",
            keys.BREAKERS_PK,
            name,
            condition=f"({FIRST_OR_SEEN}) AND {FIRST_OR_SAME_HEARD}",
            update="SET gen = :seen, heard_seq = :next, failing = :failing,"
            " answered = :answered, v = :v,"
            " breaker_state = if_not_exists(breaker_state, :closed)",
            values={
                "seen": gen,
                "seq": seq,
                "zero": 0,
                "next": seq + 1,
                "failing": {chunk: iso(at) for chunk, at in heard.failing.items()},
                "answered": {chunk: iso(at) for chunk, at in heard.answered.items()},
                "v": SCHEMA,
                "closed": BreakerPhase.CLOSED,
            },
        )
        reply = await self.table.update(write, returning="NONE")
        return snapshot(reply.item) if isinstance(reply, Refused) else None

    async def _write(
        self,
        name: str,
        condition: str,
        update: str,
        gen: int,
        values: dict[str, Any],
        event: str = "",
    ) -> BreakerSnapshot | None:
        """Write the next generation; return the current state if that is refused.

        `event`: the event of the environment that is written with it.
        """
        now = self.clock()
        write = self.table.item_write(
            "Update",
            keys.BREAKERS_PK,
            name,
            condition=condition,
            update=update,
            values={
                "seen": gen,
                "next": gen + 1,
                "now": iso(now),
                "worker": self.worker,
                **values,
            },
        )
        if event:
            facts = {
                "dependency": name,
                "actor": self.worker,
                "code": values.get("code"),
            }
            put = fleet_event(self.table, ENVIRONMENT, event, now, facts)
            reply = await self.table.transact([write, put])
        else:
            reply = await self.table.update(write, returning="NONE")
        return snapshot(reply.item) if isinstance(reply, Refused) else None


@dataclass(frozen=True, slots=True)
class FleetRecord:
    """The rows of all dependencies, as one reader sees them.

    Attributes:
        opened_at: When each breaker opened last, ISO 8601; empty: never.
        closed_at: When it closed last.
        daily_caps: The daily budget of each tenant.
    """

    breakers: Mapping[str, BreakerSnapshot]
    opened_at: Mapping[str, str]
    quotas: Mapping[str, Quota]
    closed_at: Mapping[str, str]
    daily_caps: Mapping[str, Cap]

    def closed_since(self, name: str, since: str) -> bool:
        """Return whether an open breaker was closed after a time at which it was open.

        Workers write the times, and their clocks differ: a breaker that has not opened
        since was not closed.
        """
        closed = self.closed_at.get(name, "")
        return since < closed <= self.opened_at.get(name, "")


async def read_fleet(table: Table) -> FleetRecord:
    """Read breakers, limits and daily budgets; skip newer rows."""
    breakers, quotas, opened_at, closed_at, daily = {}, {}, {}, {}, {}
    async for row in table.query(keys.BREAKERS_PK, any_version=True):
        if is_newer(row):
            continue
        name = row["sk"].removeprefix(keys.LIMITS_PREFIX)
        tenant = row["sk"].removeprefix(keys.BUDGET_PREFIX)
        if tenant != row["sk"]:
            daily[tenant] = read_budget(row).operator
        elif name != row["sk"]:
            quotas[name] = read_quota(row)
        elif (found := snapshot(row)) is not None:
            breakers[name] = found
            opened_at[name] = read_optional_text(row, "opened_at") or ""
            closed_at[name] = read_optional_text(row, "closed_at") or ""
    return FleetRecord(breakers, opened_at, quotas, closed_at, daily)


def snapshot(row: Item | None) -> BreakerSnapshot | None:
    """Return the state of a row; None: the row is malformed.

    Without a readable row each process uses its own breaker.

    Raises:
        SchemaTooNewError: A newer version wrote the row; each process uses its own
            breaker.
    """
    if row is None:
        return BreakerSnapshot()
    row = require_known(row)
    try:
        return BreakerSnapshot(
            gen=read_int(row, "gen", "A breaker"),
            phase=BreakerPhase(row["breaker_state"]),
            open_until=moment(row["open_until"]) if "open_until" in row else 0.0,
            failed_probes=read_int(
                {"failed_probes": 0} | row, "failed_probes", "A breaker"
            ),
            probe_until=moment(row["probe_until"]) if "probe_until" in row else 0.0,
            failure_code=read_optional_text(row, "error_code") or "",
            heard=Heard(times(row, "failing"), times(row, "answered")),
            heard_seq=read_int({"heard_seq": 0} | row, "heard_seq", "A breaker"),
        )
    except (KeyError, TypeError, ValueError, PermanentError):
        return None


def times(row: Item, name: str) -> dict[str, float]:
    """Return the times of an attribute by chunk, in seconds since 1970."""
    return {chunk: moment(at) for chunk, at in row.get(name, {}).items()}
