"""Hold a whole history to the invariants: pure, record by record, in its order.

Each rule sees the world as it was just before a record. What it finds carries the
rule's name and the invariant of the protocol that it stands for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from piecework.domain import keys
from verification.soak.chunk_rules import CHUNK_RULES
from verification.soak.invariants import SimulatorInvariants
from verification.soak.job_rules import JOB_RULES
from verification.soak.outside_rules import (
    ACK_RULES,
    ANY_RULES,
    EFFECT_RULES,
    LOG_RULES,
)
from verification.soak.record import (
    Ack,
    Change,
    Effect,
    Limits,
    LogEvent,
    Record,
    Violation,
)
from verification.soak.row_rules import ROW_RULES
from verification.soak.world import CHUNK_ENDED, JOB_ENDED, Rule, World

RULES: dict[str, tuple[str, Rule]] = {
    **CHUNK_RULES,
    **ROW_RULES,
    **JOB_RULES,
    **EFFECT_RULES,
    **ACK_RULES,
    **LOG_RULES,
    **ANY_RULES,
}
#: What the simulator's invariants find goes by this name.
SIMULATED = "invariants"
#: At the same millisecond: what was written, then who acted on it or told of it.
ORDER = {Change: 0, Effect: 1, Ack: 2, LogEvent: 3}


def check(records: Iterable[Record], limits: Limits) -> list[Violation]:
    """Return every broken invariant of a history that has ended."""
    world, simulated = World(limits), SimulatorInvariants(limits)
    found: list[Violation] = []
    for record in sorted(records, key=position):
        if isinstance(record, Change):
            for text in simulated.judge(record):
                number, _, said = text.partition(": ")
                found.append(
                    Violation(SIMULATED, number, where(record), record.at, said)
                )
        found += judge(world, record)
        world.take(record)
    return [*found, *at_the_end(world)]


def position(record: Record) -> tuple[float, int, int]:
    """Return where in the history a record belongs."""
    seq = record.seq if isinstance(record, Change) else 0
    return record.at, ORDER[type(record)], seq


def judge(world: World, record: Record) -> Iterator[Violation]:
    """Yield what is wrong with a record."""
    for name, (invariant, rule) in rules_for(record).items():
        for said in rule(world, record):
            yield Violation(name, invariant, where(record), record.at, said)


def rules_for(record: Record) -> dict[str, tuple[str, Rule]]:
    """Return the rules that a record is held to."""
    match record:
        case Effect():
            return EFFECT_RULES
        case Ack():
            return ACK_RULES
        case LogEvent():
            return LOG_RULES
        case Change(kind="CHUNK"):
            return {**ANY_RULES, **CHUNK_RULES}
        case Change(kind="META"):
            return {**ANY_RULES, **JOB_RULES}
        case Change():
            return {**ANY_RULES, **ROW_RULES}


def where(record: Record) -> str:
    """Name the place that a record is about."""
    match record:
        case Change(pk=pk, sk=sk):
            return f"{pk} {sk}"
        case LogEvent(worker=worker, event=event, fields=fields):
            return f"{worker} {event} {fields.get('job')}/{fields.get('chunk')}"
        case _:
            return f"{record.job}/{record.chunk}"


def at_the_end(world: World) -> Iterator[Violation]:
    """Yield what a history that is over may not leave behind."""
    for (pk, sk), item in world.items.items():
        change = Change(0, 0.0, pk, sk, item)
        if change.kind == "META" and item["status"] not in JOB_ENDED:
            yield left(change, "left-open", "L2", f"the job is {item['status']}")
        if change.kind == "CHUNK" and item["status"] not in CHUNK_ENDED:
            yield left(change, "left-open", "L1", f"the chunk is {item['status']}")
        if change.kind == "EFFECT" and item["state"] == "REFUSED":
            yield from refused_but_done(world, change)


def refused_but_done(world: World, change: Change) -> Iterator[Violation]:
    """I6: what took effect is not on record as refused."""
    row = world.items[change.pk, change.sk]
    sent = keys.provider_key(str(row["effect_key"]), int(row["gen"]))
    done = sum(
        counted[sent]
        for (_, job, chunk), counted in world.effects.items()
        if (job, chunk) == (change.job, change.chunk)
    )
    if done:
        yield left(change, "refused-but-done", "I6", f"took effect {done} times")


def left(change: Change, rule: str, invariant: str, said: str) -> Violation:
    """Return what was found in an item as the history left it."""
    return Violation(rule, invariant, where(change), change.at, said)
