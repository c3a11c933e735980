"""What is seen outside of the tables: effects, deleted messages, and logs."""

from __future__ import annotations

from collections.abc import Iterator

from piecework.domain.keys import (
    ACTIVE_PK,
    BACKLOG_PREFIX,
    BREAKERS_PK,
    EXPIRY_PK,
    WORKERS_PK,
)
from piecework_simulation.invariants.checker import is_swept
from verification.soak.record import Ack, Change, Effect, LogEvent
from verification.soak.world import CHUNK_ENDED, Rule, World

#: The event of a claim's end, and the status that the chunk then has.
SETTLED = {
    "chunk.succeeded": "SUCCEEDED",
    "chunk.retry_scheduled": "WAITING",
    "chunk.deferred": "WAITING",
    "chunk.released": "WAITING",
    "chunk.dead_lettered": "DEAD",
    "chunk.cancelled": "CANCELLED",
}


def intent_first(world: World, effect: Effect) -> Iterator[str]:
    """I7: no effect without its intent on record, under the very key."""
    if effect.what != "call" and effect.key not in world.intents:
        yield f"{effect.op} took effect without an intent"


def one_effect_a_key(world: World, effect: Effect) -> Iterator[str]:
    """I6: one effect a key; one at all of what is neither keyed nor looked up."""
    if effect.what == "call":
        return
    keys = world.effects[effect.op, effect.job, effect.chunk]
    naive = effect.op in world.limits.naive
    before = keys.total() if naive else keys[effect.key]
    if before:
        yield f"{effect.op} took effect {before + 1} times"


def acknowledged_after_its_end(world: World, ack: Ack) -> Iterator[str]:
    """I9: the message of a chunk that still has work to do is not deleted."""
    chunk = world.chunk(ack.job, ack.chunk)
    if not chunk or chunk["gen"] > ack.gen:
        return  # it belongs to nothing, or to an earlier generation
    # A job that is being cancelled starts no chunk any more.
    swept = chunk["status"] != "RUNNING" and is_swept(world.meta(ack.job), chunk)
    if chunk["gen"] < ack.gen or not (swept or chunk["status"] in CHUNK_ENDED):
        yield f"deleted while the chunk is {chunk['status']} in {chunk['gen']}"


def logged_is_stored(world: World, said: LogEvent) -> Iterator[str]:
    """I3, I5: what a worker says that it settled stands in the table, from it alone."""
    if said.event not in SETTLED:
        return
    fields = said.fields
    place = (fields["job"], fields["chunk"], fields["fence"])
    if (*place, SETTLED[said.event]) not in world.settled:
        yield f"says {said.event} of fence {place[2]}, which no worker wrote"
    more = world.completions_said[place[:2]] >= len(world.completions[place[:2]])
    if said.event == "chunk.succeeded" and more:
        yield "more say that they completed it than did"


def own_tenant_only(world: World, change: Change) -> Iterator[str]:
    """I13: no other tenant's keys; breakers, limits and workers are the fleet's."""
    tenant = world.limits.tenant
    mine = change.pk.startswith((f"T#{tenant}#J#", f"T#{tenant}#JOBS"))
    place = change.sk
    if place.startswith(BACKLOG_PREFIX):
        place = place.split("#", 2)[2]  # after the queue
    active = change.pk == ACTIVE_PK and place.startswith(f"{tenant}#")
    expires = change.pk == EXPIRY_PK and place.split("#")[1] == tenant  # after the time
    shared = change.pk in {BREAKERS_PK, WORKERS_PK}
    if not (mine or active or expires or shared):
        yield f"wrote to {change.pk}"


EFFECT_RULES: dict[str, tuple[str, Rule]] = {
    "intent-first": ("I7", intent_first),
    "one-effect-a-key": ("I6", one_effect_a_key),
}
ACK_RULES: dict[str, tuple[str, Rule]] = {
    "acknowledged-after-its-end": ("I9", acknowledged_after_its_end),
}
LOG_RULES: dict[str, tuple[str, Rule]] = {"logged-is-stored": ("I5", logged_is_stored)}
ANY_RULES: dict[str, tuple[str, Rule]] = {"own-tenant-only": ("I13", own_tenant_only)}
