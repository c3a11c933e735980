"""The events that belong to no single job: acts of operators, and circuit breakers.

The partition EVENTS has those of the environment: limits and pauses of dependencies,
and breakers, which all tenants share. Each tenant has a partition for its daily budget,
its webhooks and its deleted jobs. An event is written in the transaction of its cause,
and DynamoDB deletes it after `KEPT_DAYS`.
"""

from __future__ import annotations

from typing import Any

from piecework.domain import keys
from piecework.domain.moments import iso
from piecework.domain.rows import EventRow
from piecework.store.dead_letters import expires_at
from piecework.store.table import ItemWrite, Table

#: A year and a month: an audit of the last year finds every act.
KEPT_DAYS = 400.0
#: The environment, where a tenant is asked for.
ENVIRONMENT = ""


def fleet_event(
    table: Table, tenant: str, event: str, now: float, facts: dict[str, Any]
) -> ItemWrite:
    """Return the write of an event of a tenant, or of the environment.

    It is an update, because the roles that change dependencies may not put rows.
    """
    at, token = iso(now), f"{table.rng.getrandbits(32):08x}"
    found = {"event": event, "at": at, "expires_at": expires_at(now, KEPT_DAYS)}
    found |= {name: value for name, value in facts.items() if value is not None}
    return table.item_write(
        "Update",
        keys.events_pk(tenant),
        keys.event_sk(at, event, token),
        condition="attribute_not_exists(pk)",
        update="SET " + ", ".join(f"#{name} = :{name}" for name in found),
        values=found,
    )


async def fleet_events(
    table: Table, tenant: str, since: str = "", until: str = ""
) -> list[EventRow]:
    """Return the events from one ISO time to another, the newest first."""
    found = []
    rows = table.query(keys.events_pk(tenant), backwards=True, any_version=True)
    async for item in rows:
        row = EventRow(item)
        if row.at < since:
            break
        if not until or row.at <= until:
            found.append(row)
    return found
