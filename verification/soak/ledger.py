"""The second judge: the effects outside, against the end of each chunk."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from piecework.domain import keys
from piecework.domain.outcome import CompensationResult
from verification.soak.record import Change, Effect, Item
from verification.soak.world import NOTHING

#: What compensates each effect; the others remain once they are done.
UNDONE_BY = {"reserve": "release", "hold": "drop"}
STANDING = ("charge", "deliver")
DONE = (*UNDONE_BY, *STANDING)
#: What an operator must look at before the chunk is redriven.
FOR_AN_OPERATOR = (CompensationResult.FAILED, CompensationResult.ABANDONED)
#: What stands for certain where a chunk died at its pivot or behind it.
BEFORE_THE_END = {
    CompensationResult.PIVOT_UNKNOWN: ("reserve", "hold"),
    CompensationResult.PAST_PIVOT: ("reserve", "hold", "charge"),
}


def read_ledger(path: Path) -> list[Effect]:
    """Read the outside ledger."""
    if not path.exists():
        return []
    fields = ("at", "what", "op", "job", "chunk", "key")
    with path.open(encoding="utf-8") as lines:
        return [Effect(*map(json.loads(line).get, fields)) for line in lines]


def settle_up(
    effects: Iterable[Effect],
    chunks: Mapping[str, Mapping[int, Item]],
    for_an_operator: Collection[tuple[str, int]] = (),
) -> list[str]:
    """Return every chunk whose effects are not those of its end, in words.

    Args:
        effects: The outside ledger.
        chunks: The chunks of the saga's jobs, as they ended.
        for_an_operator: Chunks whose compensation failed once. An operator must find
            out what remains of them, also if a redrive did not ask one.
    """
    counts: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    for effect in effects:
        if effect.what != "call":
            counts[effect.job, effect.chunk][effect.op] += 1
    return [
        f"{job}/{number} ({chunk['status']}, {chunk.get('compensation')}): {said}"
        for job, items in chunks.items()
        for number, chunk in items.items()
        if number != keys.JOIN_CHUNK
        for said in wrong(
            chunk,
            counts[job, number],
            {0, 1} if (job, number) in for_an_operator else set(),
        )
    ]


def for_an_operator(changes: Iterable[Change]) -> set[tuple[str, int]]:
    """Return the chunks whose compensation failed, or killed its worker too often."""
    return {
        (change.job, change.chunk or 0)
        for change in changes
        if change.kind == "CHUNK"
        and (change.new or NOTHING).get("compensation") in FOR_AN_OPERATOR
    }


def wrong(chunk: Item, counts: Counter[str], doubt: set[int]) -> Iterator[str]:
    """Say what is wrong with the effects of a chunk."""
    for op in DONE:
        remain = counts[op] - counts[UNDONE_BY.get(op, "")]
        if remain not in may_remain(chunk, op) | (doubt if op in UNDONE_BY else set()):
            yield f"{op} remains {remain} times ({counts[op]} done)"


def may_remain(chunk: Item, op: str) -> set[int]:
    """Return how often an effect may remain, by how the chunk ended.

    What ended in doubt, or was cut off by a cancel, may have come that far or not.
    """
    if chunk["status"] == "SUCCEEDED":
        return {1}
    if chunk.get("compensation") in {
        CompensationResult.COMPENSATED,
        CompensationResult.NOT_NEEDED,
    }:
        return {0}
    certain = BEFORE_THE_END.get(chunk.get("compensation", ""), ())
    return {1} if op in certain else {0, 1}


def paid_twice(effects: Iterable[Effect]) -> int:
    """Count the calls without an effect that were paid for more than once."""
    calls = Counter(
        (effect.op, effect.job, effect.chunk)
        for effect in effects
        if effect.what == "call"
    )
    return sum(n - 1 for n in calls.values())


def duplicates(effects: Iterable[Effect], naive: frozenset[str]) -> int:
    """Count the effects that took place more than once under one key."""
    counts = Counter(
        (e.op, e.job, e.chunk, "" if e.op in naive else e.key)
        for e in effects
        if e.what != "call"
    )
    return sum(n - 1 for n in counts.values())
