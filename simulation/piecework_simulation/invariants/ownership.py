"""Check that tenants never mix, and that each death is the chunk's own.

A second tenant submits a job of the same name. Every row names its tenant in its key. A
command writes only rows of the tenant that it acts for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from piecework.domain import keys
from piecework.resilience.lanes import NO_ROOM_CODE
from piecework.settings import Settings
from piecework_simulation.aws.dynamodb import Change

Item = Mapping[str, Any]

#: Maximum bytes of a value in a row; larger values are objects.
MAX_INLINE_BYTES = 64 * 1024
#: The codes of a fault that the input of a chunk has.
INPUT_CODES = {
    "tool.input.refused",
    "tool.input.busy",
    "runtime.stage.killed",
    "runtime.stage.blocked_loop",
}


def foreign_writes(change: Change, tenant: str) -> Iterator[str]:
    """Yield how a write mixes tenants; `tenant`: that of the command, or empty."""
    row = change.new or change.old or {}
    place = f"{change.pk} {change.sk}"
    of_pk = change.sk if change.pk == keys.ACTIVE_PK else change.pk.removeprefix("T#")
    if change.pk == keys.EXPIRY_PK:
        of_pk = change.sk.partition("#")[2]  # after the time
    if of_pk.startswith(keys.BACKLOG_PREFIX):
        of_pk = of_pk.split("#", 2)[2]  # after the queue
    of_pk = of_pk.removeprefix(keys.PIPELINE_PREFIX)
    owner = of_pk.partition("#")[0]
    named = row.get("tenant", {}).get("S", owner)
    if change.pk.startswith(("T#", keys.ACTIVE_PK)) and named != owner:
        yield f"I13: {place} names tenant {named}"
    if tenant and tenant != owner:
        yield f"I13: a command of {tenant} wrote {place}"
    job = change.pk.removeprefix("T#").partition("#J#")[2].partition("#")[0]
    stored_at = row.get("value_at", {}).get("S")
    if stored_at and not stored_at.startswith(f"tenants/{owner}/jobs/{job}/"):
        yield f"I13: the value of {place} is at {stored_at}"


def oversized(change: Change) -> Iterator[str]:
    """Yield how a row holds a value that should be an object."""
    text = (change.new or {}).get("value", {}).get("S", "")
    if len(text.encode()) > MAX_INLINE_BYTES:
        yield f"I5: {change.pk} {change.sk} holds a large value"


def undeserved_death(item: Item, settings: Settings, *, guilty: bool) -> str | None:
    """Return what another chunk or AWS caused, if a dead chunk died of it.

    A chunk is charged for its own faults only. Lost and returned claims are not charged
    up to a limit. A service that refuses a worker is never charged.
    """
    code = item.get("error_code", "")
    if code.startswith("aws."):
        return "an outage of AWS"
    if code == NO_ROOM_CODE:
        return "a full lane"
    if guilty:
        return None
    if code in INPUT_CODES:
        return "another input"
    spared = (
        item.get("takeovers", 0) <= settings.max_takeovers
        and item.get("releases", 0) <= settings.max_releases
    )
    return "lost claims" if code == "runtime.worker.lost" and spared else None


def foreign_objects(
    names: Iterable[str], jobs: Iterable[tuple[str, str, int]]
) -> Iterator[str]:
    """Yield the objects that belong to no job; a job is a tenant and a name."""
    places = tuple(f"tenants/{tenant}/jobs/{job}/" for tenant, job, _ in jobs)
    for name in names:
        if not name.startswith(places):
            yield f"I13: object {name} belongs to no job"
