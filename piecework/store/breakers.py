"""The fleet's breakers: one row a dependency, moved on by whoever saw it as it stands.

A generation is one time of one state, so that naming it names the state as well. The
table is the fleet's only meeting place; nobody calls it for a single call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from piecework.calls.fleet_breaker import BreakerSnapshot
from piecework.domain import keys
from piecework.domain.model import iso, moment
from piecework.domain.records import SCHEMA, read_int, require_known
from piecework.errors import PermanentError
from piecework.resilience.breaker import BreakerPhase
from piecework.store.table import Item, Refused, Table

#: Nobody has moved it on since. Where there is no row, the first change makes it.
FIRST_OR_SEEN = "attribute_not_exists(pk) OR gen = :seen"
SEEN = "gen = :seen"
#: One probe at a time; that of a worker that died counts as lost after its time.
NOT_PROBED = "(attribute_not_exists(probe_until) OR probe_until < :now)"
OUR_PROBE = "probe_token = :token"
NO_PROBE = "REMOVE probe_token, probe_until, probed_by"


@dataclass(slots=True)
class Breakers:
    """The breakers of one deployment, as one worker writes them."""

    table: Table
    worker: str
    clock: Callable[[], float]

    async def read_all(self) -> Mapping[str, BreakerSnapshot]:
        """Read every breaker, in one request.

        Consistently, as all that is read here. No write would need it, for each names
        the generation that it was decided on; but half a unit a second is no price
        for a fleet that does not call a dependency which one of it has given up.
        """
        rows = self.table.query(keys.BREAKERS_PK)
        found = {row["sk"]: snapshot(row) async for row in rows}
        return {name: stands for name, stands in found.items() if stands is not None}

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
        )

    async def take_probe(
        self, name: str, gen: int, token: str, until: float
    ) -> BreakerSnapshot | None:
        """Take the one probe of an open breaker, until then at the latest."""
        action = self.table.action(
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
        reply = await self.table.update(action)
        # Refused by our own token: the answer to the first of two sends was lost.
        if (
            isinstance(reply, Refused)
            and (reply.item or {}).get("probe_token") != token
        ):
            return snapshot(reply.item)
        return None

    async def release_probe(
        self, name: str, gen: int, token: str
    ) -> BreakerSnapshot | None:
        """Let somebody else have the probe: ours told nothing."""
        action = self.table.action(
            "Update",
            keys.BREAKERS_PK,
            name,
            condition=f"{SEEN} AND {OUR_PROBE}",
            update=NO_PROBE,
            values={"seen": gen, "token": token},
        )
        reply = await self.table.update(action, returning="NONE")
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
        )

    async def _write(
        self, name: str, condition: str, update: str, gen: int, values: dict[str, Any]
    ) -> BreakerSnapshot | None:
        """Write the next generation; return what stands where it is another's."""
        action = self.table.action(
            "Update",
            keys.BREAKERS_PK,
            name,
            condition=condition,
            update=update,
            values={
                "seen": gen,
                "next": gen + 1,
                "now": iso(self.clock()),
                "worker": self.worker,
                **values,
            },
        )
        reply = await self.table.update(action, returning="NONE")
        return snapshot(reply.item) if isinstance(reply, Refused) else None


def snapshot(row: Item | None) -> BreakerSnapshot | None:
    """Return a row as the engine reads it; None: somebody spoiled it.

    Then it says nothing, and is told nothing: each process goes by itself.

    Raises:
        SchemaTooNewError: It is of a later version: each process goes by itself.
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
        )
    except (KeyError, TypeError, ValueError, PermanentError):
        return None
