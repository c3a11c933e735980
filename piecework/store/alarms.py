"""The record of raised alarms: one for all reconcilers, until its quiet time ends."""

from __future__ import annotations

from piecework import keys
from piecework.model import iso
from piecework.store.table import Table, Written

#: The alarm was never raised, or its quiet time is over.
NOT_RAISED = "attribute_not_exists(pk) OR quiet_until <= :now"


async def raise_alarm(
    table: Table, tenant: str, about: str, *, now: float, quiet_s: float
) -> bool:
    """Record an alarm for `quiet_s` seconds; return whether this process raised it."""
    token = f"{table.rng.getrandbits(128):032x}"
    action = table.action(
        "Update",
        keys.alarms_pk(tenant),
        about,
        condition=NOT_RAISED,
        update="SET kind = :kind, raised_at = :now, quiet_until = :until,"
        " alarm_token = :token",
        values={
            "kind": "alarm",
            "now": iso(now),
            "until": iso(now + quiet_s),
            "token": token,
        },
    )
    reply = await table.update(action, returning="NONE")
    # Refused by our own token: the answer to the first of two sends was lost.
    return isinstance(reply, Written) or (reply.item or {}).get("alarm_token") == token
