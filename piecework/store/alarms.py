"""Which alarms were given: each once for all reconcilers, as long as it holds good."""

from __future__ import annotations

from piecework import keys
from piecework.model import iso
from piecework.store.table import Table, Written

#: Nobody has given it, or so long ago that it says nothing any more.
NOT_GIVEN = "attribute_not_exists(pk) OR quiet_until <= :now"


async def give_alarm(
    table: Table, tenant: str, about: str, *, now: float, quiet_s: float
) -> bool:
    """Note that an alarm is given, and not again for a while; say whether by us."""
    token = f"{table.rng.getrandbits(128):032x}"
    action = table.action(
        "Update",
        keys.alarms_pk(tenant),
        about,
        condition=NOT_GIVEN,
        update="SET kind = :kind, given_at = :now, quiet_until = :until,"
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
